#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include <gpipe/core/config.hpp>

namespace gpipe::host {

/// target[j][i] = source[i][j] for i, j < 8, in rows `stride` and `target_stride` elements apart, in three rounds of
/// exchanges between rows 1, 2 and 4 apart:
///
///     a b   a'b'      a a'  b b'      2 x 2 blocks, then blocks of these
///     c d   c'd'  ->  c c'  d d'
GPIPE_OUT_OF_LINE inline void transpose_8x8(const float* source, std::ptrdiff_t stride, float* target,
                                            std::ptrdiff_t target_stride) {
  using row [[gnu::vector_size(32)]] = float;
  using in_memory [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = float;
  row rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = *reinterpret_cast<const in_memory*>(source + i * stride);
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
    *reinterpret_cast<in_memory*>(target + i * target_stride) = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    *reinterpret_cast<in_memory*>(target + (i + 4) * target_stride) =
        __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

/// target[row][column] = source[column][row], for `rows` x `columns` elements of `target`, rounded if they are bf16.
template <class From, class T>
void transpose(int rows, int columns, const From* source, std::ptrdiff_t stride, T* target,
               std::ptrdiff_t target_stride) {
  int done = 0;  // rows done in blocks
  if constexpr (std::is_same_v<From, float> && std::is_same_v<T, float>) {
    if (columns % 8 == 0) done = rows / 8 * 8;
    for (int column = 0; column < columns && done > 0; column += 8)  // all that is read of eight rows of `source`
      for (int row = 0; row < done; row += 8)
        transpose_8x8(source + column * stride + row, stride, target + row * target_stride + column, target_stride);
  }
  for (int column = 0; column < columns; ++column)
    for (int row = done; row < rows; ++row) target[row * target_stride + column] = source[column * stride + row];
}

}  // namespace gpipe::host
