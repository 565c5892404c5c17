#pragma once

#include <cstddef>

namespace gpipe {

/// The columns of a panel in a packed matrix.
inline constexpr int panel_width = 32;

/// Elements of a `rows` x `columns` matrix packed for `multiply`: panels of `panel_width` columns, each with its rows
/// one after the other; the last panel is padded with zeros. A product reads a panel from end to end. Without panels,
/// rows a power of two apart would map to the same few cache lines.
///
///     rows  |  0 .. 31  | 32 .. 63  | 64 .. 71 0 .. 0 |
///           |  panel 0  |  panel 1  |     panel 2     |
constexpr std::size_t packed_size(int rows, int columns) {
  return static_cast<std::size_t>((columns + panel_width - 1) / panel_width) * panel_width *
         static_cast<std::size_t>(rows);
}

}  // namespace gpipe
