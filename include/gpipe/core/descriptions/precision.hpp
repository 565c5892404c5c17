#pragma once

namespace gpipe {

// assumes: half precision is bf16
/// The element type of a model's activations and their gradients, and of the copies of weights that kernels read.
/// Parameters, their gradients and moments, sums and losses are float32 in both precisions.
enum class precision {
  float32,
  bf16,  ///< half the bytes on edges and links; uses a device's matrix units
};

/// The name of the precision in options and reports.
constexpr const char* name_of(precision chosen) { return chosen == precision::bf16 ? "bf16" : "float32"; }

}  // namespace gpipe
