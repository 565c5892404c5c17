#pragma once

#include <string>
#include <string_view>

#include <gpipe/model/graph.hpp>

namespace gpipe {

/// The most numbers that a loss tells: so many can be told without an allocation.
inline constexpr int max_metrics = 8;

/// What a step or an evaluation found, over all its samples.
struct outcome {
  double loss = 0;     ///< mean, by weight
  double weight = 0;   ///< sum of the samples' weights
  double correct = 0;  ///< sum of the weights of those that the model got right
  double norm = 0;     ///< of the mean gradient, before clipping; steps only
  int samples = 0;
  double sums[max_metrics]{};  ///< of the loss's partials, in the order in which it lists them
  const row* told_by = nullptr;

  double accuracy() const { return weight > 0 ? correct / weight : 0; }

  /// The mean by weight of a partial of the loss, of its `index`-th number if it has several: the sum over all samples,
  /// divided by `weight`. Throws `error` if the loss has none of that name.
  GPIPE_ONCE double metric(std::string_view name, std::size_t index = 0) const {
    std::string known;
    std::size_t at = 0;
    for (int p = 0; told_by != nullptr && p < told_by->partial_count; ++p) {
      const partial& it = told_by->partials[p];
      if (it.name == name && index < it.size) return weight > 0 ? sums[at + index] / weight : 0;
      known.append(known.empty() ? "" : ", ").append(it.name);
      at += it.size;
    }
    detail::refuse({"the loss tells no \"", name, "\""}, {"it tells ", known.empty() ? "nothing" : known});
  }
};

}  // namespace gpipe
