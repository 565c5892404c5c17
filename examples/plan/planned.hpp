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
  int device = 0;  // some schedules have two stages on each
};

struct planned {
  std::vector<planned_stage> stages;
  std::int64_t makespan = 0, bound = 0;  // nanoseconds
  double idle = 0;                       // share of the workers' time
  int workers = 1;
  std::vector<trace_event> events;

  /// The bytes of the largest device, with all its stages.
  std::int64_t max_bytes() const {
    std::vector<std::int64_t> of(static_cast<std::size_t>(workers));
    for (const planned_stage& s : stages) of[static_cast<std::size_t>(s.device)] += s.bytes;
    return *std::max_element(of.begin(), of.end());
  }
};

}  // namespace example
