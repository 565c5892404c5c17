#pragma once

#include <cstddef>

namespace gpipe::detail {

/// A number that is not negative, as an index of a standard container.
constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

}  // namespace gpipe::detail
