#pragma once

#include <algorithm>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/narrow_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>
#include <gpipe/layer/contract/panels.hpp>

// Keeps the sums of a block in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 6")
#endif

namespace gpipe::host {

/// A tile in plain C++, for any machine and any floating-point type: up to six rows by two vectors, whose sums stay in
/// registers (twelve of sixteen under AVX2); one vector is a `narrow_block`. Each operation is explicit, so a high
/// block and a low one round alike.
///
///            b0 b1          one row of the panel: two loads
///       a0 [ .. .. ]
///       a1 [ .. .. ]        one element of each row of A, spread over a vector
///       a5 [ .. .. ]
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
    return [=](const T* a, const T* b, T* c, const T* /*next*/) {
      if (narrow_block::fits<T>(columns))
        return narrow_block::multiply<Transposed>(rows, columns, k, a, lda, b, panel_width, c, ldc, accumulate);
      // Blocks of nearly equal height: a block of one or two rows would stall on its own sums.
      for (int done = 0, blocks = (rows + 5) / 6; blocks > 0; --blocks) {
        const int height = (rows - done + blocks - 1) / blocks;
        const T* a_rows = a + (Transposed ? done : std::ptrdiff_t{done} * lda);
        T* c_rows = c + std::ptrdiff_t{done} * ldc;
        switch (height) {
          case 6:
            strip<6, T, Transposed>(columns, k, a_rows, lda, b, c_rows, ldc, accumulate);
            break;
          case 5:
            strip<5, T, Transposed>(columns, k, a_rows, lda, b, c_rows, ldc, accumulate);
            break;
          case 4:
            strip<4, T, Transposed>(columns, k, a_rows, lda, b, c_rows, ldc, accumulate);
            break;
          case 3:
            strip<3, T, Transposed>(columns, k, a_rows, lda, b, c_rows, ldc, accumulate);
            break;
          case 2:
            strip<2, T, Transposed>(columns, k, a_rows, lda, b, c_rows, ldc, accumulate);
            break;
          default:
            strip<1, T, Transposed>(columns, k, a_rows, lda, b, c_rows, ldc, accumulate);
        }
        done += height;
      }
    };
  }

 private:
  template <int Rows, class T, bool Transposed>
  GPIPE_OUT_OF_LINE static void strip(int columns, int k, const T* a, int lda, const T* b, T* c, int ldc,
                                      bool accumulate) {
    using vector = detail::vector<T>;
    constexpr int width = vector::width;
    for (int column = 0; column < columns; column += 2 * width) {
      typename vector::type sum[std::size_t{Rows}][2] = {};
      T* out = c + column;
      if (accumulate) {
        GPIPE_UNROLL_ROWS
        for (int r = 0; r < Rows; ++r) {
          sum[r][0] = vector::load(out + std::ptrdiff_t{r} * ldc);
          sum[r][1] = vector::load(out + std::ptrdiff_t{r} * ldc + width);
        }
      }
      const T *panel = b + column, *left_values = a;
      for (int p = 0; p < k; ++p, panel += panel_width, left_values += Transposed ? lda : 1) {
        const auto right0 = vector::load(panel), right1 = vector::load(panel + width);
        GPIPE_UNROLL_ROWS
        for (int r = 0; r < Rows; ++r) {
          const auto left = vector::repeat(left_values[Transposed ? r : std::ptrdiff_t{r} * lda]);
          sum[r][0] = vector::multiply_add(left, right0, sum[r][0]);
          sum[r][1] = vector::multiply_add(left, right1, sum[r][1]);
        }
      }
      GPIPE_UNROLL_ROWS
      for (int r = 0; r < Rows; ++r) {
        vector::store(sum[r][0], out + std::ptrdiff_t{r} * ldc);
        vector::store(sum[r][1], out + std::ptrdiff_t{r} * ldc + width);
      }
    }
  }
};

}  // namespace gpipe::host

#undef GPIPE_UNROLL_ROWS
