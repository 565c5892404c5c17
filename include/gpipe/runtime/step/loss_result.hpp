#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpipe/model/graph.hpp>

namespace gpipe {

/// The largest number of partials of a loss. A fixed number, so that results need no allocation.
inline constexpr int max_metrics = 8;

/// One loss of a model, over all samples of a step or an evaluation.
class loss_result {
 public:
  std::string_view name{};     ///< `Name` of `auxiliary<Name, ...>`, or "main"
  double loss = 0;             ///< mean, by weight
  double factor = 1;           ///< of the loss in the total
  double weight = 0;           ///< sum of the samples' weights
  double sums[max_metrics]{};  ///< of the loss's partials, in the order in which the loss lists them

  /// Whether the loss counts right answers: it has the partial "correct".
  bool has_accuracy() const { return row_ != nullptr && row_->correct >= 0; }
  /// The share of right answers, by weight, or 0 without weight. Throws `error` if the loss does not count them.
  GPIPE_COLD double accuracy() const {
    if (row_ == nullptr) return 0;
    if (!has_accuracy())
      detail::throw_error({"the loss ", row_->name, " has no accuracy"},
                          {"read its metrics, or declare the partial \"correct\" in a loss of your own"});
    return weight > 0 ? sums[row_->correct] / weight : 0;
  }
  /// The mean by weight of a partial: the sum over all samples, divided by `weight`. A partial may have several
  /// numbers; `index` selects one. Throws `error` if the loss has no partial of that name.
  GPIPE_COLD double metric(std::string_view partial_name, std::size_t index = 0) const {
    std::string known;
    std::size_t offset = 0;
    for (int p = 0; row_ != nullptr && p < row_->partial_count; ++p) {
      const partial& partial = row_->partials[p];
      if (partial.name == partial_name && index < partial.size) return weight > 0 ? sums[offset + index] / weight : 0;
      known.append(known.empty() ? "" : ", ").append(partial.name);
      offset += partial.size;
    }
    detail::throw_error({"the loss has no partial \"", partial_name, "\""},
                        {"it has ", known.empty() ? "none" : known});
  }

  /// For the code that fills it in.
  loss_result() = default;
  explicit loss_result(const detail::layer_type* row)
      : name(row != nullptr && row->auxiliary_loss() ? row->loss_name : main_loss),
        factor(row != nullptr ? row->loss_factor : 1),
        row_(row) {}
  /// Adds the sums of another call, and updates the mean.
  void add(const loss_result& added) noexcept {
    for (int p = 0; p < max_metrics; ++p) sums[p] += added.sums[p];
    weight += added.weight;
    divide();
  }
  void divide() noexcept {
    loss = sums[row_->loss];
    if (weight > 0) loss /= weight;
  }
  const detail::layer_type* row() const { return row_; }

 private:
  const detail::layer_type* row_ = nullptr;  // has the names of the sums
};

}  // namespace gpipe
