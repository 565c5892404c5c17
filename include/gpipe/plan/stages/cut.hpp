#pragma once

namespace gpipe {

/// A cut of a model: stage s holds the slots [first[s], first[s + 1]).
struct cut {
  const int* first = nullptr;
  int stages = 0;

  /// The stage of a slot; -1 for the writer of a value that enters the model (slot -1).
  constexpr int stage_of(int slot) const {
    if (slot < 0) return -1;
    int low = 0, high = stages;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= slot ? low : high) = middle;
    }
    return low;
  }
};

}  // namespace gpipe
