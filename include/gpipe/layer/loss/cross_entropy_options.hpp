#pragma once

#include <cstdint>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The settings of a cross-entropy: `softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1, .ignored = -100}>`.
struct cross_entropy {
  /// The target is (1 - smoothing) [j = label] + smoothing / C, as in PyTorch and TensorFlow. Lingvo's, which is
  /// smoothing / (C - 1) off the label, is this one with smoothing C / (C - 1).
  double_bits smoothing = 0;
  /// A label whose rows have weight 0 and no gradient, PyTorch's ignore_index: no class, such as -100, or a class, such
  /// as 0 for padding.
  std::int32_t ignored = no_label;
  /// In training, inputs are clamped to [-clip, clip], and a clamped input has no gradient. 0: they are not.
  double_bits clip = 0;
};

}  // namespace gpipe
