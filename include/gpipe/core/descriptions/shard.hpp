#pragma once

namespace gpipe {

/// Selects the arrays that the R replicas of a stage divide among them, one share per replica, instead of R full
/// copies. A layer is never split between shares. The bits of a training do not change.
enum class shard {
  none,             ///< every replica keeps full copies
  optimizer_state,  ///< a replica keeps moments, arrays of tensor rules and averages of its share only, and updates
                    ///< that (ZeRO-1)
  gradients,        ///< and, once summed, gradients of its share only, where the schedule allows it (ZeRO-2)
};

/// The name of the choice in options and reports.
constexpr const char* name_of(shard chosen) {
  constexpr const char* names[] = {"none", "optimizer-state", "gradients"};
  return names[static_cast<int>(chosen)];
}

}  // namespace gpipe
