#pragma once

#include <cmath>
#include <vector>

#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/step_result.hpp>

namespace gpipe {

/// The decision that all workers wait for before they update: made once, from what every stage has left.
struct commit {
  double rate = 0;
  double clip = 0;              ///< the largest norm of the mean gradient; 0: any
  std::vector<double> squares;  ///< of each slot's gradient, summed in double
  std::vector<double> told;     ///< the partials of the loss's slot, as far apart for each micro-batch as in its stage
  bool finite = false;          ///< whether loss, weight and norm are
  bool holds = false;           ///< whether the step may be applied
  double scale = 0;             ///< makes the summed gradient a mean, clipped
  outcome earlier;              ///< of the calls that were accumulated for this step
  std::int64_t closed_ns = 0;   ///< when the last worker was at the gate
  outcome found;

  /// Room for what stages leave.
  GPIPE_ONCE void hold(const network& net, int micro_batches) {
    squares.resize(static_cast<std::size_t>(net.slot_count));
    if (const int slot = net.loss_slot(); slot >= 0)
      told.resize(static_cast<std::size_t>(micro_batches) * net.row_of(slot).partial_bytes() / sizeof(double));
  }

  /// Sums the partials of the loss's slot in the order of calls and micro-batches.
  void sum(const row& loss, const step_state& step) noexcept {
    found = step.training ? earlier : outcome{};
    found.told_by = &loss;
    found.samples += step.rows.samples;
    const auto numbers = loss.partial_elements();
    const double* at = told.data();
    for (int m = 0; m < step.filled(); ++m, at += loss.partial_bytes() / sizeof(double)) {
      for (std::size_t p = 0; p < numbers; ++p) found.sums[p] += at[p];
      found.weight += loss.weight < 0 ? step.samples(m) : at[loss.weight];
    }
    found.loss = found.sums[loss.loss];
    if (loss.correct >= 0) found.correct = found.sums[loss.correct];
    if (found.weight > 0) found.loss /= found.weight;
  }

  /// Norms are combined in model order, so that no cut changes their bits.
  void decide() noexcept {
    double sum = 0;
    for (const double square : squares) sum += square;
    found.norm = std::sqrt(sum);
    if (found.weight > 0) found.norm /= found.weight;
    scale = 1 / found.weight;
    finite = std::isfinite(found.loss) && std::isfinite(found.norm) && std::isfinite(found.weight);
    // As a float, for that is what it may become.
    holds = finite && found.weight > 0 && std::isfinite(static_cast<float>(scale));
    if (clip > 0 && found.norm > clip) scale *= clip / found.norm;
  }
};

}  // namespace gpipe
