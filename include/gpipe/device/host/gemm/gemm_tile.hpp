#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// Matrix products run in blocks of C, one panel wide. A `Tile` multiplies one block:
///
///     Tile::rows_of(left)         rows of the next block, at most `left` and `row_block`
///     Tile::depth_of(left)        the same for the inner extent of a transposed product, at most `depth_block`: a
///                                 multiple of `Tile::depth_step`, filled up with rows of zeros
///     Tile::columns_of<T, Transposed>(left)   columns that are computed if fewer than a panel's are left
///     Tile::find<T, Transposed>(rows, columns, k, lda, ldc, accumulate)
///                                 a function (a, b, c, next):  c[rows x columns] (+)= a[rows x k] * b, where b is a
///                                 panel and k at most `inner_block`; if transposed, a[k x rows]. It may prefetch
///                                 `next`, the panel that follows (or b again). After `Tile::prepare` with the same
///                                 arguments it neither allocates nor compiles.
///
/// All matrices are row-major. Every tile adds the products of an element in ascending order of the inner index, by
/// `multiply_add`, in one sum. So the bits of an element depend only on its row and its column, and are the same in
/// every tile. (libxsmm fuses each product with its sum even if the program is compiled for processors that cannot.)
inline constexpr int row_block = 32, inner_block = 512, depth_block = 256;

namespace detail {

constexpr std::ptrdiff_t offset(int index, int stride) { return std::ptrdiff_t{index} * stride; }

template <class From, class T>
void copy(int count, const From* source, T* target) {
  if constexpr (std::is_same_v<From, T>) std::memcpy(target, source, sizeof(T) * static_cast<std::size_t>(count));
  else
    for (int i = 0; i < count; ++i) target[i] = source[i];
}

// If C ends inside a panel, the block is computed in a buffer of whole vectors, and its valid columns are copied.
template <class T, class Multiply>
void at_edge(int height, int columns, T* c, int ldc, bool add, const std::type_identity_t<T>* start,
             Multiply multiply) {
  alignas(gpipe::detail::alignment) T block[row_block * panel_width];
  if (add) {
    std::memset(block, 0, sizeof block);
    for (int r = 0; r < height; ++r) copy(columns, start ? start : c + offset(r, ldc), block + offset(r, panel_width));
  }
  multiply(block);
  for (int r = 0; r < height; ++r) copy(columns, block + offset(r, panel_width), c + offset(r, ldc));
}

}  // namespace detail

}  // namespace gpipe::host
