#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <gpipe/runtime/step/batch.hpp>
#include <gpipe/runtime/step/tensor_rows.hpp>

namespace gpipe {

/// What all stages of a step share: the rows of the batch, and how they are cut into micro-batches. Replicas have a
/// part of these each.
struct step_state {
  batch_rows rows;
  int per_micro_batch = 1;  ///< ceil(batch / (R M)): micro-batch m holds the samples from m times this on
  int first_micro_batch = 0;  ///< of this part, among all of the step
  int micro_batches = (std::numeric_limits<int>::max)();  ///< of this part, at most
  int samples_before = 0;   ///< of the mini-batch, in the calls before this one
  bool training = true;
  bool commits = true;      ///< false: gradients are accumulated for a later call
  bool examining = false;   ///< look for the first number that is not finite
  sample_rows* predicted = nullptr;  ///< what enters the loss goes here, and the loss does not run; null: it runs
  bool applied = true;      ///< whether parameters are updated
  bool measured = true;     ///< whether its times are reported
  bool written = false;     ///< what devices are asked for until the gate is written down, and not asked for again
  int looks = 0;            ///< counts changes of what is frozen and who is watched
  std::uint64_t seed = 0;
  std::uint64_t step = 0;   ///< of the optimizer: unchanged by a step that fails

  /// Micro-batch m of this part, counted among all of the step: as errors, traces and digests tell it.
  int among_all(int m) const { return first_micro_batch + m; }
  int first_sample(int m) const { return (std::min)(rows.samples, among_all(m) * per_micro_batch); }
  int samples(int m) const { return first_sample(m + 1) - first_sample(m); }  ///< 0: the micro-batch is skipped
  /// Micro-batches with samples, of all of the step and of this part.
  int filled_of_all() const { return (rows.samples + per_micro_batch - 1) / per_micro_batch; }
  int filled() const { return std::clamp(filled_of_all() - first_micro_batch, 0, micro_batches); }
  /// Whether gradients are summed anew. Who examines looks at this call alone.
  bool clears() const { return training && (samples_before == 0 || examining); }
};

}  // namespace gpipe
