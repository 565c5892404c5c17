#pragma once

#include <gpipe/core/numbers/double_bits.hpp>

namespace gpipe {

/// The setting of a normalization by mean and variance: `layer_norm_with<mean_and_variance{.epsilon = 1e-6}>`,
/// `group_norm_with<8, mean_and_variance{.epsilon = 1e-6}>`.
struct mean_and_variance {
  double_bits epsilon = 1e-5;
};

}  // namespace gpipe
