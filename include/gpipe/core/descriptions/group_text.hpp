#pragma once

#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/text/exact.hpp>

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
