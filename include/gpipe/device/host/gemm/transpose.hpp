#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include <gpipe/core/config.hpp>

namespace gpipe::host {

/// into[j][i] = from[i][j] for i, j < 8, in rows `stride` and `into_stride` elements apart, in three rounds of
/// exchanges between rows 1, 2 and 4 apart:
///
///     a b   a'b'      a a'  b b'      2 x 2 blocks, then blocks of these
///     c d   c'd'  ->  c c'  d d'
GPIPE_OUT_OF_LINE inline void transpose_8x8(const float* from, std::ptrdiff_t stride, float* into,
                                            std::ptrdiff_t into_stride) {
  using row [[gnu::vector_size(32)]] = float;
  using in_memory [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
  row rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = *reinterpret_cast<const in_memory*>(from + i * stride);
  for (int i = 0; i < 8; i += 2) {
    const row a = rows[i], b = rows[i + 1];
    rows[i] = __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    rows[i + 1] = __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (const int i : {0, 1, 4, 5}) {
    const row a = rows[i], b = rows[i + 2];
    rows[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    rows[i + 2] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < 4; ++i) {
    const row a = rows[i], b = rows[i + 4];
    *reinterpret_cast<in_memory*>(into + i * into_stride) = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<in_memory*>(into + (i + 4) * into_stride) =
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// into[row][column] = from[column][row], for `rows` x `columns` elements of `into`, rounded if they are bf16.
template <class From, class T>
void transpose(int rows, int columns, const From* from, std::ptrdiff_t stride, T* into, std::ptrdiff_t into_stride) {
  int done = 0;  // rows done in blocks
  if constexpr (std::is_same_v<From, float> && std::is_same_v<T, float>) {
    if (columns % 8 == 0) done = rows / 8 * 8;
    for (int column = 0; column < columns && done > 0; column += 8)  // all that is read of eight rows of `from`
      for (int row = 0; row < done; row += 8)
        transpose_8x8(from + column * stride + row, stride, into + row * into_stride + column, into_stride);
  }
  for (int column = 0; column < columns; ++column)
    for (int row = done; row < rows; ++row) into[row * into_stride + column] = from[column * stride + row];
}

}  // namespace gpipe::host
