#pragma once

#include <cstdint>

namespace gpipe {

/// The position of a batch in a training: whole epochs before it, and batches before it in its epoch. Inside an epoch
/// it is a number of samples only with the batch size, and the same samples only in an epoch of as many.
struct data_position {
  std::uint64_t epoch = 0;
  long batch = 0;
  /// Samples of a batch, or its tokens if the source chooses the samples; 0: those of the training that begins here.
  int batch_size = 0;
  int samples = 0;  ///< of an epoch; 0: those of the data there
  bool operator==(const data_position&) const = default;
};

}  // namespace gpipe
