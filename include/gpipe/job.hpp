#pragma once

// For trainings of several processes: the option .job.
#include <gpipe/runtime/join_job.hpp>
#include <gpipe/tools/search/searched_plan.hpp>
