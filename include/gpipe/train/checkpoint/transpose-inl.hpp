#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <gpipe/train/checkpoint/transpose.hpp>

namespace gpipe::detail {

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

GPIPE_COLD GPIPE_INLINE void transpose_each(std::byte* matrices, std::size_t count, std::size_t rows,
                                            std::size_t columns, std::size_t element) {
  if (rows == 1 || columns == 1) return;
  const std::size_t bytes = rows * columns * element;
  std::vector<std::byte> turned(bytes);
  for (std::size_t i = 0; i < count; ++i, matrices += bytes) {
    transpose_rows(matrices, rows, columns, element, 0, columns, turned.data());
    std::memcpy(matrices, turned.data(), bytes);
  }
}

}  // namespace gpipe::detail
