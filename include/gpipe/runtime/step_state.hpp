#pragma once

#include <algorithm>
#include <cstdint>

#include <gpipe/runtime/batch.hpp>

namespace gpipe {

/// What all stages of a step share: the rows of the batch, and how they are cut into micro-batches.
struct step_state {
  batch_rows rows;
  int per_micro_batch = 1;  ///< ceil(batch / M): micro-batch m holds the samples from m times this on
  bool training = true;
  bool examining = false;   ///< look for the first number that is not finite
  bool applied = true;      ///< whether parameters are updated
  bool measured = true;     ///< whether its times are reported
  std::uint64_t seed = 0;
  std::uint64_t step = 0;   ///< of the optimizer: unchanged by a step that fails

  int first_sample(int m) const { return (std::min)(rows.samples, m * per_micro_batch); }
  int samples(int m) const { return first_sample(m + 1) - first_sample(m); }  ///< 0: the micro-batch is skipped
};

}  // namespace gpipe
