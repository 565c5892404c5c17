#pragma once

namespace gpipe {

// assumes: one device per layer
/// A cut of a model: stage s holds the layers [first[s], first[s + 1]).
struct cut {
  const int* first = nullptr;
  int stages = 0;
  /// [layer]: the layer before whose backward this one runs forward again. -1: its outputs are kept. Null: all outputs
  /// are kept, or whole micro-batches are recomputed.
  const int* recomputed_before = nullptr;

  /// The stage of a layer; -1 for the writer of a value that enters the model (layer -1).
  constexpr int stage_of(int layer) const {
    if (layer < 0) return -1;
    int low = 0, high = stages;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= layer ? low : high) = middle;
    }
    return low;
  }
};

}  // namespace gpipe
