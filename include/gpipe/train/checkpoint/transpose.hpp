#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// Rows `first` to `first + count` of the transpose of a matrix, whose elements have `element` bytes: 1, 2, 4 or 8.
///
///     from:  rows x columns        to[c - first][r] = from[r][c],  first <= c < first + count
void transpose_rows(const std::byte* from, std::size_t rows, std::size_t columns, std::size_t element,
                    std::size_t first, std::size_t count, std::byte* to);

#if GPIPE_BODIES
template <std::size_t Element>
GPIPE_COLD void transpose_elements(const std::byte* from, std::size_t rows, std::size_t columns, std::size_t first,
                                   std::size_t count, std::byte* to) {
  constexpr std::size_t tile = 16;  // its lines of both matrices stay in the cache
  for (std::size_t c0 = 0; c0 < count; c0 += tile)
    for (std::size_t r0 = 0; r0 < rows; r0 += tile)
      for (std::size_t c = c0; c < (std::min)(c0 + tile, count); ++c)
        for (std::size_t r = r0; r < (std::min)(r0 + tile, rows); ++r)
          std::memcpy(to + (c * rows + r) * Element, from + (r * columns + first + c) * Element, Element);
}

GPIPE_COLD GPIPE_INLINE void transpose_rows(const std::byte* from, std::size_t rows, std::size_t columns,
                                            std::size_t element, std::size_t first, std::size_t count, std::byte* to) {
  switch (element) {
    case 8:
      return transpose_elements<8>(from, rows, columns, first, count, to);
    case 4:
      return transpose_elements<4>(from, rows, columns, first, count, to);
    case 2:
      return transpose_elements<2>(from, rows, columns, first, count, to);
    default:
      return transpose_elements<1>(from, rows, columns, first, count, to);
  }
}
#endif

}  // namespace gpipe::detail
