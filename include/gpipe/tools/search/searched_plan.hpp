#pragma once

#include <gpipe/plan/make_plan.hpp>

#if !GPIPE_COMPILED
#include <gpipe/tools/search/searched_plan-inl.hpp>
#endif
