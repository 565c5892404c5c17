#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpipe {

// change: a parameter group setting
/// Parameters with separate settings: `{.parameters = {"h.*.ln_1.weight"}, .rate_factor = 0.1}`. A parameter
/// belongs to the first group that matches it; one that no group matches has the optimizer's settings. In a pattern, *
/// is any text, also none, and ? is one letter.
struct parameter_group {
  std::vector<std::string> parameters{};  ///< patterns of paths
  /// Patterns of layer types, such as "linear" or "linear<8>": all parameters match. "rms_norm" includes
  /// `rms_norm_with`.
  std::vector<std::string> layers{};
  double rate_factor = 1;                ///< multiplies the learning rate
  std::optional<double> weight_decay{};  ///< in place of the optimizer's
  bool frozen = false;                   ///< no value changes; the gradients are zero, and no norm counts them
  bool may_be_empty = false;             ///< else a pattern or a group without parameters is an error
};

/// The usual exception from weight decay: biases, and all parameters of layers whose names end in `_norm`.
inline parameter_group no_decay_for_biases_and_norms() {
  return {.parameters = {"*bias"}, .layers = {"*_norm"}, .weight_decay = 0, .may_be_empty = true};
}

}  // namespace gpipe
