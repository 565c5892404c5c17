#pragma once

#include <cmath>
#include <vector>

#include <gpipe/model/graph.hpp>
#include <gpipe/runtime/step_state.hpp>

namespace gpipe {

/// What a step or an evaluation found, over all its samples.
struct outcome {
  double loss = 0;     ///< mean, by weight
  double weight = 0;   ///< sum of the samples' weights
  double correct = 0;  ///< sum of the weights of those that the model got right
  double norm = 0;     ///< of the mean gradient, before clipping; steps only
  int samples = 0;

  double accuracy() const { return weight > 0 ? correct / weight : 0; }
};

/// The decision that all workers wait for before they update: made once, from what every stage has left.
struct commit {
  double rate = 0;
  double clip = 0;              ///< the largest norm of the mean gradient; 0: any
  std::vector<double> squares;  ///< of each slot's gradient, summed in double
  bool holds = false;           ///< whether the step may be applied
  double scale = 0;             ///< makes the summed gradient a mean, clipped
  std::int64_t closed_ns = 0;   ///< when the last worker was at the gate
  outcome found;

  /// Sums the partials of the loss's slot in the order of micro-batches. `partials(m)` is where those of m lie.
  template <class Partials>
  void sum(const row& loss, const step_state& step, int micro_batches, Partials&& partials) noexcept {
    found = {};
    found.samples = step.rows.samples;
    for (int m = 0; m < micro_batches && step.samples(m) > 0; ++m) {
      const double* at = partials(m);
      found.loss += at[loss.loss];
      found.weight += loss.weight < 0 ? step.samples(m) : at[loss.weight];
      if (loss.correct >= 0) found.correct += at[loss.correct];
    }
    if (found.weight > 0) found.loss /= found.weight;
  }

  /// Norms are combined in model order, so that no cut changes their bits.
  void decide() noexcept {
    double sum = 0;
    for (const double square : squares) sum += square;
    found.norm = std::sqrt(sum) / found.weight;
    scale = 1 / found.weight;
    // As a float, for that is what it may become.
    holds = std::isfinite(found.loss) && std::isfinite(found.norm) && std::isfinite(found.weight) && found.weight > 0 &&
            std::isfinite(static_cast<float>(scale));
    if (clip > 0 && found.norm > clip) scale *= clip / found.norm;
  }
};

}  // namespace gpipe
