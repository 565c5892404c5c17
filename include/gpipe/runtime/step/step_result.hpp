#pragma once

#include <string>
#include <string_view>

#include <gpipe/model/graph.hpp>

namespace gpipe {

namespace detail {
struct result_source;
}

/// The largest number of partials of a loss. A fixed number, so that results need no allocation.
inline constexpr int max_metrics = 8;

/// The result of a step or an evaluation, over all its samples.
struct step_result {
  double loss = 0;     ///< mean, by weight
  double weight = 0;   ///< sum of the samples' weights
  double correct = 0;  ///< sum of the weights of the samples that the model got right
  double norm = 0;     ///< of the mean gradient, before clipping; steps only
  int samples = 0;
  double sums[max_metrics]{};  ///< of the loss's partials, in the order in which the loss lists them

  double accuracy() const { return weight > 0 ? correct / weight : 0; }

  /// The mean by weight of a partial of the loss: the sum over all samples, divided by `weight`. A partial may have
  /// several numbers; `index` selects one. Throws `error` if the loss has no partial of that name.
  GPIPE_COLD double metric(std::string_view name, std::size_t index = 0) const {
    std::string known;
    std::size_t at = 0;
    for (int p = 0; loss_row_ != nullptr && p < loss_row_->partial_count; ++p) {
      const partial& it = loss_row_->partials[p];
      if (it.name == name && index < it.size) return weight > 0 ? sums[at + index] / weight : 0;
      known.append(known.empty() ? "" : ", ").append(it.name);
      at += it.size;
    }
    detail::throw_error({"the loss has no partial \"", name, "\""}, {"it has ", known.empty() ? "none" : known});
  }

 private:
  friend struct detail::result_source;
  const detail::row* loss_row_ = nullptr;  // has the names of the sums
};

namespace detail {

/// The row of the network whose partials are summed in a result.
struct result_source {
  static const row*& of(step_result& result) { return result.loss_row_; }
};

}  // namespace detail

}  // namespace gpipe
