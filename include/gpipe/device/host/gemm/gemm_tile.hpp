#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/product_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>
#include <gpipe/layer/contract/panels.hpp>

#if GPIPE_WITH_LIBXSMM
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>
#endif

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

/// A tile in plain C++ (see product_block).
struct portable_tile {
  static int rows_of(int left) { return (std::min)(left, row_block); }
  static constexpr int depth_step = 1;
  static int depth_of(int left) { return (std::min)(left, depth_block); }
  template <class T, bool Transposed>
  static int columns_of(int left) {
    constexpr int step = 2 * detail::vector<T>::width;
    return left <= step / 2 ? step / 2 : (left + step - 1) / step * step;
  }

  template <class T, bool Transposed>
  static void prepare(int, int, int, int, int, bool) {}

  template <class T, bool Transposed>
  static auto find(int rows, int columns, int k, int lda, int ldc, bool accumulate) {
    return [shape = block_shape{rows, columns, k, lda, ldc, accumulate, Transposed}](const T* a, const T* b, T* c,
                                                                                     const T* /*next*/) {
      product_block::multiply_panel<Transposed>(shape, a, b, c);
    };
  }
};

#if GPIPE_WITH_LIBXSMM
/// Tiles compiled by libxsmm, each for exactly one shape. Blocks are as high as a power of two, so that any number of
/// rows runs compiled shapes. For float; other types, and shapes for which libxsmm has no kernel, use the portable
/// tile.
struct libxsmm_tile {
  static int rows_of(int left) { return left >= row_block ? row_block : power_below(left); }
  static constexpr int depth_step = 4;  // a depth of one or two costs as much
  static int depth_of(int left) {
    return left >= depth_block ? depth_block : power_below((left + depth_step - 1) / depth_step * depth_step);
  }
  template <class T, bool Transposed>
  static int columns_of(int left) {
    // libxsmm's code for a part of a vector is slow below AVX-512.
    if constexpr (std::is_same_v<T, float>) return (left + 7) / 8 * 8;
    else return portable_tile::columns_of<T, Transposed>(left);
  }

  template <class T, bool Transposed>
  GPIPE_COLD static void prepare(int rows, int columns, int k, int lda, int ldc, bool accumulate) {
    if constexpr (std::is_same_v<T, float>) find<T, Transposed>(rows, columns, k, lda, ldc, accumulate);
  }

  template <class T, bool Transposed>
  static auto find(int rows, int columns, int k, int lda, int ldc, bool accumulate) {
    // Narrower blocks have rows of a whole panel in memory.
    const auto portable = portable_tile::find<T, Transposed>(rows, portable_tile::columns_of<T, Transposed>(columns), k,
                                                             lda, ldc, accumulate);
    if constexpr (std::is_same_v<T, float>)
      return [kernel = libxsmm_kernels::find({rows, columns, k, lda, ldc, accumulate, Transposed}), portable](
                 const float* a, const float* b, float* c, const float* next) {
        if (kernel) kernel(a, b, c, next);
        else portable(a, b, c, next);
      };
    else return portable;
  }

 private:
  static int power_below(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
};
#endif

}  // namespace gpipe::host
