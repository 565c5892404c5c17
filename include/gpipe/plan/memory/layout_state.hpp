#pragma once

#include <gpipe/plan/memory/first_fit.hpp>
#include <gpipe/plan/memory/requirements.hpp>

namespace gpipe::detail {

/// Bytes kept so far, and the most that they needed with what hung above.
struct kept_stack {
  std::int64_t bytes = 0, height = 0;

  constexpr void under(std::int64_t depth) {
    if (bytes + depth > height) height = bytes + depth;
  }
};

/// How far a layout has come, and what it has found. Of a fixed size: one constant evaluation hands it to the next.
struct layout_state {
  int tick = 0;  ///< of 2 n: forward of each of the n slots, then backward of each
  stage_memory memory;
  hanging transient, inside;  ///< above all that is kept, or where in the micro-batch's own set nothing is kept
  kept_stack late, early;  ///< held for parameter parts that wait; above it the rest, given back from above
  std::int64_t height = 0;      ///< of the working set
  std::int64_t alive = 0;       ///< of what is kept
  std::int64_t passing = 0;     ///< of what is transient
  std::int64_t most_alive = 0;  ///< of both
  std::int64_t own = 0;         ///< transient buffers, if each had its own
  static constexpr int ticks_known = 16;
  std::int64_t depth[ticks_known]{};  ///< of `transient` in the last ticks of forward
};

}  // namespace gpipe::detail
