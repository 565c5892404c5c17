#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>

#include <cstdint>

namespace gpipe {

namespace detail {

/// The faults of a set of programs.
enum class fault : std::uint8_t {
  none,
  unknown,     ///< a stage, micro-batch or link that does not exist, or is not this worker's
  premature,   ///< ran before its inputs, or waited for its gradient before recompute
  repeated,    ///< ran twice, or must not run
  missing,     ///< never ran; the position is the end of the program
  unpaired,    ///< a send and a receive that do not match, or one without the other
  deadlock,    ///< workers wait in a cycle
  retirement,  ///< parameter gradients of a stage not in the order 0 ... M-1
  stash,       ///< more micro-batches in flight than the stage has slots for
};

/// One word.
constexpr const char* name_of(fault error) {
  constexpr const char* names[] = {"none",     "unknown",  "premature",  "repeated", "missing",
                                   "unpaired", "deadlock", "retirement", "stash"};
  return names[static_cast<int>(error)];
}

}  // namespace detail

/// The first fault: the worker, the line of its program, and the instruction.
struct check_result {
  detail::fault error = detail::fault::none;
  int worker = -1;
  int position = -1;
  instruction action{};

  constexpr bool ok() const { return error == detail::fault::none; }
};

}  // namespace gpipe
