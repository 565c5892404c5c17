#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/step_result.hpp>

namespace gpipe::detail {

/// The caller's terms for a commit.
struct commit_terms {
  double rate = 0;
  double max_norm = 0;      ///< the largest norm of the mean gradient; 0: no limit
  step_result accumulated;  ///< of the calls that were accumulated for this step
};

/// The values of all stages, gathered on the host before the decision.
struct gathered_values {
  std::vector<double> squares;   ///< [slot], of its gradient, summed in double
  std::vector<double> partials;  ///< of the loss, at the same distance for each micro-batch as in its stage
};

/// The decision itself, and the result of the step.
struct commit_result {
  step_result found;
  bool finite = false;           ///< loss, weight and norm are finite
  bool holds = false;            ///< the step may be applied
  double scale = 0;              ///< turns the summed gradient into a mean, clipped
  std::int64_t decided_ns = 0;   ///< when the last worker arrived at the barrier
};

/// The decision that all workers wait for before they update. One worker makes it, from the values of every stage.
struct commit_decision {
  commit_terms terms;
  gathered_values gathered;
  commit_result result;

  /// Makes room for the values of all stages.
  GPIPE_COLD void reserve(const network& net, int micro_batches) {
    gathered.squares.resize(detail::index(net.slot_count));
    if (const int slot = net.loss_slot(); slot >= 0)
      gathered.partials.resize(detail::index(micro_batches) * net.row_of(slot).partial_bytes() / sizeof(double));
  }

  /// Sums the partials of the loss in the order of calls and micro-batches.
  void sum(const row& loss, const step_context& step) noexcept {
    step_result& found = result.found;
    found = step.trains() ? terms.accumulated : step_result{};
    detail::result_source::of(found) = &loss;
    found.samples += step.rows.samples;
    const auto numbers = loss.partial_elements();
    const double* at = gathered.partials.data();
    for (int m = 0; m < step.filled(); ++m, at += loss.partial_bytes() / sizeof(double)) {
      for (std::size_t p = 0; p < numbers; ++p) found.sums[p] += at[p];
      found.weight += loss.weight < 0 ? step.samples(m) : at[loss.weight];
    }
    found.loss = found.sums[loss.loss];
    if (loss.correct >= 0) found.correct = found.sums[loss.correct];
    if (found.weight > 0) found.loss /= found.weight;
  }

  /// Adds the squares in model order, so that no cut changes a bit of the norm.
  void decide() noexcept {
    step_result& found = result.found;
    double sum = 0;
    for (const double square : gathered.squares) sum += square;
    found.norm = std::sqrt(sum);
    if (found.weight > 0) found.norm /= found.weight;
    result.scale = 1 / found.weight;
    result.finite = std::isfinite(found.loss) && std::isfinite(found.norm) && std::isfinite(found.weight);
    // The scale must be finite as a float, because updates may use it as one.
    result.holds = result.finite && found.weight > 0 && std::isfinite(static_cast<float>(result.scale));
    if (terms.max_norm > 0 && found.norm > terms.max_norm) result.scale *= terms.max_norm / found.norm;
  }
};

}  // namespace gpipe::detail
