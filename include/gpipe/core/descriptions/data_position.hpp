#pragma once

#include <cstdint>

namespace gpipe {

/// The position of a batch in a training: whole epochs before it, and batches before it in its epoch. Within an epoch,
/// `batch` is a number of samples only together with the batch size, and it names the same samples only in an epoch of
/// equal length.
struct data_position {
  std::uint64_t epoch = 0;
  long batch = 0;
  /// Samples per batch, or tokens if the source chooses the samples; 0: as in the training that starts here.
  int batch_size = 0;
  int samples = 0;  ///< per epoch; 0: as many as the training's data has
  bool operator==(const data_position&) const = default;
};

}  // namespace gpipe
