#pragma once

namespace gpipe {

/// Chooses what the replicas of a stage keep in shares, one each, and not R times. A layer is wholly in one share. The
/// bits of a training are the same.
enum class shard {
  none,             ///< every replica keeps all
  optimizer_state,  ///< a replica keeps moments, arrays of tensor rules and averages of its share, and updates it
                    ///< (ZeRO-1)
  gradients,        ///< and gradients of its share alone once they are summed, where the schedule allows it (ZeRO-2)
};

/// The name of the choice in options and reports.
constexpr const char* name_of(shard chosen) {
  constexpr const char* names[] = {"none", "optimizer-state", "gradients"};
  return names[static_cast<int>(chosen)];
}

}  // namespace gpipe
