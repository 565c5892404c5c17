#pragma once

#include <gpipe/core/tensors/lanes.hpp>

namespace gpipe::host::detail {

/// As many numbers as a register of the target machine has.
template <class T>
struct vector : gpipe::detail::lanes<T, gpipe::detail::vector_bytes / static_cast<int>(sizeof(T))> {
  static constexpr int width = gpipe::detail::vector_bytes / static_cast<int>(sizeof(T));
};

}  // namespace gpipe::host::detail
