#pragma once

#include <cstddef>

namespace laws {

/// Element i of a stream of numbers in [-1, 1); exact in float. The scripts in tests/support/reference have the same.
inline double torch_number(std::size_t stream, std::size_t i) {
  return static_cast<double>((i * (i + stream) * 37 + stream * 11) % 8191) / 4096 - 1;
}

}  // namespace laws
