#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quoted.hpp>
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

namespace detail {
struct result_source;
}

// change: a non-finite step
/// The result of a step or an evaluation, over all its samples. The weight, the sums and the metrics belong to the main
/// loss.
struct step_result {
  double loss = 0;     ///< mean, by weight; of several losses the total: each mean times its factor
  double weight = 0;   ///< sum of the samples' weights
  double correct = 0;  ///< sum of the weights of the samples that the model got right
  double norm = 0;     ///< of the mean gradient, before clipping; steps only
  int samples = 0;
  // change: a metric
  double sums[max_metrics]{};  ///< of the loss's partials, in the order in which the loss lists them

  /// Whether the main loss counts right answers.
  bool has_accuracy() const { return main().has_accuracy(); }
  /// The share of right answers, by weight. Throws `error` if the main loss does not count them.
  GPIPE_COLD double accuracy() const { return main().accuracy(); }

  /// The mean by weight of a partial of the loss: the sum over all samples, divided by `weight`. A partial may have
  /// several numbers; `index` selects one. Throws `error` if the loss has no partial of that name.
  GPIPE_COLD double metric(std::string_view name, std::size_t index = 0) const { return main().metric(name, index); }

  /// The auxiliary losses in model order.
  std::span<const loss_result> auxiliary_losses() const { return {auxiliary_.data(), detail::index(auxiliary_count_)}; }
  /// A loss by its name; the main loss is "main". Throws `error` if there is none of that name.
  GPIPE_COLD loss_result loss_named(std::string_view name) const {
    std::string known(main_loss);
    if (name == main_loss) return main();
    for (const loss_result& result : auxiliary_losses()) {
      if (result.name == name) return result;
      known.append(", ").append(result.name);
    }
    detail::throw_error({"the model has no loss ", detail::quoted(name)}, {"it has ", known});
  }

 private:
  GPIPE_COLD loss_result main() const {
    loss_result result(loss_row_);
    for (int p = 0; p < max_metrics; ++p) result.sums[p] = sums[p];
    result.weight = weight;
    if (loss_row_ != nullptr && loss_row_->loss >= 0) result.divide();
    return result;
  }

  friend struct detail::result_source;
  const detail::layer_type* loss_row_ = nullptr;  // has the names of the sums
  std::array<loss_result, max_auxiliary_losses> auxiliary_{};
  int auxiliary_count_ = 0;
};

namespace detail {

/// Sets the fields of a result: the row of the network whose partials are summed, and the auxiliary losses.
struct result_source {
  static const layer_type*& of(step_result& result) { return result.loss_row_; }
  /// The result's auxiliary loss of that row, which is added if it is new.
  static loss_result& auxiliary(step_result& result, const layer_type& row) noexcept {
    for (int k = 0; k < result.auxiliary_count_; ++k)
      if (result.auxiliary_[index(k)].row() == &row) return result.auxiliary_[index(k)];
    return result.auxiliary_[index(result.auxiliary_count_++)] = loss_result(&row);
  }
  // change: a sum of losses
  /// Adds the auxiliary losses to the loss, which is the mean of the main one.
  static void add_auxiliary(step_result& result) noexcept {
    for (const loss_result& loss : result.auxiliary_losses())
      result.loss = multiply_add(loss.factor, loss.loss, result.loss);
  }
};

}  // namespace detail

}  // namespace gpipe
