#pragma once

namespace gpipe {

/// In what a model computes: the type of what flows between its layers, forward and back, and of what these read of
/// their weights. Parameters, their gradients and moments, sums and losses are float32 in both.
enum class precision {
  float32,
  bf16,  ///< half the bytes on edges and links, and a device's matrix units
};

/// In words, as options name it.
constexpr const char* name_of(precision chosen) { return chosen == precision::bf16 ? "bf16" : "float32"; }

}  // namespace gpipe
