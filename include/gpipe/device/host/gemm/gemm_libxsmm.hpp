#pragma once

#include <bit>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/gemm_portable.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>

namespace gpipe::host {

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

}  // namespace gpipe::host
