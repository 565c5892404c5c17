#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/index.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/runtime/step/loss_result.hpp>

namespace gpipe {

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
