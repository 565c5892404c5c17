#pragma once

#include <string>
#include <string_view>

#include <gpipe/model/graph.hpp>

namespace gpipe {

/// The most partials that a loss has: so many numbers can be told without an allocation.
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

  /// The mean by weight of a partial of the loss: its sum over all samples, divided by `weight`. Throws `error` if the
  /// loss has none of that name.
  GPIPE_ONCE double metric(std::string_view name) const {
    std::string known;
    for (int p = 0; told_by != nullptr && p < told_by->partial_count; ++p) {
      if (told_by->partials[p] == name) return weight > 0 ? sums[p] / weight : 0;
      known.append(known.empty() ? "" : ", ").append(told_by->partials[p]);
    }
    detail::refuse({"the loss tells no \"", name, "\""}, {"it tells ", known.empty() ? "nothing" : known});
  }
};

}  // namespace gpipe
