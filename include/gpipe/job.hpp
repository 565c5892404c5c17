#pragma once

// For trainings of several processes: the option .job.
#include <gpipe/runtime/join_job.hpp>
