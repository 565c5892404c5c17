#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/text/quantity.hpp>

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

namespace gpipe::detail {

// change: a parameter group setting
/// A group of parameters in words: "*.bias: rate_factor 1, weight_decay 0".
GPIPE_COLD inline std::string text_of(const parameter_group& group) {
  std::string text;
  for (const auto* patterns : {&group.parameters, &group.layers})
    for (const std::string& pattern : *patterns) text.append(text.empty() ? "" : ", ").append(pattern);
  text.append(": rate_factor ").append(exact_text(group.rate_factor));
  if (group.weight_decay) text.append(", weight_decay ").append(exact_text(*group.weight_decay));
  if (group.frozen) text.append(", frozen");
  return text;
}

}  // namespace gpipe::detail
