#pragma once

#include <cstdint>

namespace gpipe {

/// The position of a batch in a training: whole epochs before it, and batches before it in its epoch.
struct data_position {
  std::uint64_t epoch = 0;
  long batch = 0;
  bool operator==(const data_position&) const = default;
};

}  // namespace gpipe
