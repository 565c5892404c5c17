#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/runtime/step/batch.hpp>
#include <gpipe/runtime/step/step_result.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>

namespace gpipe::detail {

/// The purpose of one pass over the stages.
///
///                 backward   gradients     update   times reported
///     train       yes        are applied   yes      yes
///     accumulate  yes        are kept      no       yes
///     measure     yes        are dropped   no       no
///     diagnose    as the pass that it repeats, until the first number that is not finite; reports no times
///     evaluate    no                                if the plan only runs forward
///     predict     no, and the loss does not run     if the plan only runs forward
enum class pass_kind : std::uint8_t { train, accumulate, measure, diagnose, evaluate, predict };

/// One pass, as all stages see it: its kind, its batch, and how the batch is split into micro-batches. Set when the
/// pass begins, and constant during it. Each replica has a copy with its own part of the micro-batches.
struct step_context {
  pass_kind kind = pass_kind::train;
  pass_kind repeated = pass_kind::train;  ///< the pass that `diagnose` runs again; else the same as `kind`
  batch_rows rows;
  int per_micro_batch = 1;    ///< ceil(batch / (R M)): micro-batch m holds the samples from m times this on
  int first_micro_batch = 0;  ///< of this part, among all of the step
  int micro_batches = (std::numeric_limits<int>::max)();  ///< of this part, at most
  int samples_before = 0;            ///< samples of the mini-batch, or rows predicted, in earlier calls
  tensor_rows* predicted = nullptr;  ///< `predict` copies the input of the loss to these rows
  bool gathers = false;              ///< parameters that other replicas have updated are gathered first
  bool captured = false;             ///< devices record the step until the commit as graphs, or launch those
  bool forward_only = false;         ///< the plan has no backward
  int changes = 0;                   ///< counts changes of frozen and of watched layers
  std::int64_t began_ns = 0;         ///< when the call began, with the check of its batch
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< of the optimizer: a failed step leaves it unchanged

  /// Changes the kind of the next pass. A diagnosis repeats the pass before it.
  void begin(pass_kind next) {
    if (next != pass_kind::diagnose) repeated = next;
    kind = next;
    captured = false;
  }

  bool trains() const { return repeated <= pass_kind::measure; }  ///< backward runs
  /// The pass ends in a commit: the decision is made before the updates.
  bool commits() const { return repeated == pass_kind::train || repeated == pass_kind::measure; }
  bool applies() const { return kind == pass_kind::train; }  ///< the commit updates parameters
  bool diagnoses() const { return kind == pass_kind::diagnose; }
  bool predicts() const { return kind == pass_kind::predict; }
  /// Rows of watched layers are taken from the pass.
  bool is_watched() const { return is_recorded() || kind == pass_kind::evaluate || kind == pass_kind::predict; }
  /// The pass is part of a step of the optimizer: digests are taken from it.
  bool is_recorded() const { return kind == pass_kind::train || kind == pass_kind::accumulate; }
  /// Reports count the times of the pass.
  bool is_timed() const {
    return is_recorded() || (forward_only && (kind == pass_kind::evaluate || kind == pass_kind::predict));
  }
  /// The pass sets gradients to zero first. A diagnosis looks at one call alone.
  bool clears() const { return trains() && (samples_before == 0 || diagnoses()); }

  /// The number of this part's micro-batch m among all of the step: errors, traces and digests use it.
  int global_micro_batch(int m) const { return first_micro_batch + m; }
  int first_sample(int m) const { return (std::min)(rows.samples, global_micro_batch(m) * per_micro_batch); }
  int samples(int m) const { return first_sample(m + 1) - first_sample(m); }  ///< 0: the micro-batch is skipped
  /// The number of micro-batches with samples: of the whole step, and of this part.
  int filled_of_all() const { return (rows.samples + per_micro_batch - 1) / per_micro_batch; }
  int filled() const { return std::clamp(filled_of_all() - first_micro_batch, 0, micro_batches); }
};

/// The caller's terms for a commit.
struct commit_terms {
  double rate = 0;
  double max_norm = 0;      ///< the largest norm of the mean gradient; 0: no limit
  step_result accumulated;  ///< of the calls that were accumulated for this step
};

/// The values of all stages, gathered on the host before the decision.
struct gathered_values {
  std::vector<double> squares;   ///< [layer], of its gradient, summed in double
  std::vector<double> partials;  ///< [loss][micro-batch][partial]; `loss_location` has the first one and the stride
};

/// The location of a loss in the gathered partials.
struct loss_location {
  int layer_index = -1;
  const layer_type* layer = nullptr;
  std::size_t first = 0;   ///< its first partial
  std::size_t stride = 0;  ///< numbers from one micro-batch to the next

  std::size_t bytes(int micro_batches) const { return stride * index(micro_batches) * sizeof(double); }
};

/// The locations of the main loss and of the auxiliary losses after it, for this number of micro-batches of all
/// replicas.
GPIPE_COLD inline std::vector<loss_location> locations_of_losses(const network& net, int micro_batches) {
  std::vector<loss_location> locations;
  std::size_t offset = 0;
  const auto add = [&](int layer) {
    const layer_type& loss = net.type_of(layer);
    locations.push_back({layer, &loss, offset, loss.partial_bytes() / sizeof(double)});
    offset += locations.back().stride * index(micro_batches);
  };
  if (const int layer = net.loss_layer(); layer >= 0) add(layer);
  for (int l = net.auxiliary_after(-1); l >= 0 && !locations.empty(); l = net.auxiliary_after(l)) add(l);
  return locations;
}

/// The decision itself, and the result of the step.
struct commit_result {
  step_result found;
  bool same_weights = true;     ///< all losses have the same sum of weights, by which the commit divides
  bool finite = false;          ///< loss, weight and norm are finite
  bool holds = false;           ///< the step may be applied
  double scale = 0;             ///< turns the summed gradient into a mean, clipped
  std::int64_t decided_ns = 0;  ///< when the last worker arrived at the barrier
};

/// The decision that all workers wait for before they update. One worker makes it, from the values of every stage.
struct commit_decision {
  commit_terms terms;
  gathered_values gathered;
  commit_result result;
  std::vector<loss_location> losses;

  /// Makes room for the values of all stages.
  GPIPE_COLD void reserve(const network& net, int micro_batches) {
    gathered.squares.resize(detail::index(net.layer_count));
    losses = locations_of_losses(net, micro_batches);
    if (!losses.empty())
      gathered.partials.resize(losses.back().first + losses.back().bytes(micro_batches) / sizeof(double));
  }

  /// Sums the partials of the loss in the order of calls and micro-batches.
  void sum(const layer_type& loss, const step_context& step) noexcept {
    step_result& found = result.found;
    found = step.trains() ? terms.accumulated : step_result{};
    detail::result_source::of(found) = &loss;
    found.samples += step.rows.samples;
    const auto numbers = loss.partial_elements();
    const double* partials = gathered.partials.data();
    for (int m = 0; m < step.filled(); ++m, partials += loss.partial_bytes() / sizeof(double)) {
      for (std::size_t p = 0; p < numbers; ++p) found.sums[p] += partials[p];
      found.weight += loss.weight < 0 ? step.samples(m) : partials[loss.weight];
    }
    found.loss = found.sums[loss.loss];
    if (loss.correct >= 0) found.correct = found.sums[loss.correct];
    if (found.weight > 0) found.loss /= found.weight;
  }

  /// Sums the partials of all losses. The losses' means, each times its factor, add up to the result's loss.
  void sum(const step_context& step) noexcept {
    sum(*losses.front().layer, step);
    if (losses.size() == 1) return;
    step_result& found = result.found;
    for (std::size_t k = 1; k < losses.size(); ++k) {
      const layer_type& loss = *losses[k].layer;
      loss_result& auxiliary = result_source::auxiliary(found, loss);
      const double* partials = gathered.partials.data() + losses[k].first;
      for (int m = 0; m < step.filled(); ++m, partials += losses[k].stride) {
        for (std::size_t p = 0; p < loss.partial_elements(); ++p) auxiliary.sums[p] += partials[p];
        auxiliary.weight += loss.weight < 0 ? step.samples(m) : partials[loss.weight];
      }
      auxiliary.divide();
    }
    result_source::add_auxiliary(found);
  }

  /// The first auxiliary loss whose sum of weights differs from the main loss's by more than rounding; null: none.
  const loss_result* other_weight() const noexcept {
    for (const loss_result& auxiliary : result.found.auxiliary_losses())
      if (is_nan(auxiliary.weight) ||
          !(std::fabs(auxiliary.weight - result.found.weight) <= 1e-9 * result.found.weight))
        return &auxiliary;
    return nullptr;
  }

  // change: a non-finite step
  // assumes: half precision is bf16; a scale of the loss would be divided out here
  // assumes: one commit per step
  // change: gradient clipping
  /// Adds the squares in model order, so that no cut changes a bit of the norm.
  void decide() noexcept {
    step_result& found = result.found;
    double sum = 0;
    for (const double square : gathered.squares) sum += square;
    found.norm = std::sqrt(sum);
    if (found.weight > 0) found.norm /= found.weight;
    result.scale = 1 / found.weight;
    result.finite = is_finite(found.loss) && is_finite(found.norm) && is_finite(found.weight);
    // The scale must be finite as a float, because updates may use it as one.
    result.same_weights = other_weight() == nullptr;
    result.holds =
        result.finite && result.same_weights && found.weight > 0 && is_finite(static_cast<float>(result.scale));
    if (terms.max_norm > 0 && found.norm > terms.max_norm) result.scale *= terms.max_norm / found.norm;
  }
};

}  // namespace gpipe::detail
