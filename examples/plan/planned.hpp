#pragma once

// The result of planning one choice.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gpipe/record/trace.hpp>

namespace example {

using namespace gpipe;

struct planned_stage {
  int first = 0, last = 0;  // the layers [first, last)
  std::int64_t forward = 0, backward = 0, bytes = 0;
};

struct planned {
  std::vector<planned_stage> stages;
  std::int64_t makespan = 0, bound = 0;  // nanoseconds
  double idle = 0;                       // share of the workers' time
  int workers = 1;
  std::vector<trace_event> events;

  std::int64_t max_bytes() const {
    std::int64_t max = 0;
    for (const planned_stage& s : stages) max = std::max(max, s.bytes);
    return max;
  }
};

}  // namespace example
