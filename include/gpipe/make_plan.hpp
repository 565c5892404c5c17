#pragma once

// Plans made at run time: `make_plan`, trainers of plan_options, the option .cut of a training.
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/search/searched_plan.hpp>
