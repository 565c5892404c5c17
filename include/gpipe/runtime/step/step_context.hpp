#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <gpipe/runtime/step/batch.hpp>
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

}  // namespace gpipe::detail
