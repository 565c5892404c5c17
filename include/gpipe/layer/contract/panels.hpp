#pragma once

#include <cstddef>

namespace gpipe {

/// Columns in a panel of a packed matrix.
inline constexpr int panel_width = 32;

/// Elements of a `rows` x `columns` matrix packed for `multiply`: panels of `panel_width` columns, each with its rows
/// one after the other, the last one filled up with zeros. A product walks a panel from end to end, where rows a
/// power of two apart would fall on the same few lines of the cache.
///
///     rows  |  0 .. 31  | 32 .. 63  | 64 .. 71 0 .. 0 |
///           |  panel 0  |  panel 1  |     panel 2     |
constexpr std::size_t packed_size(int rows, int columns) {
  return static_cast<std::size_t>((columns + panel_width - 1) / panel_width) * panel_width *
         static_cast<std::size_t>(rows);
}

}  // namespace gpipe
