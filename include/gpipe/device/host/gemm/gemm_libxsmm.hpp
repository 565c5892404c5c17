#pragma once

#include <bit>
#include <type_traits>

#include <gpipe/core/error.hpp>
#include <gpipe/device/host/gemm/gemm_portable.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/libxsmm_kernels.hpp>

namespace gpipe::host {

/// Tiles compiled by libxsmm, each for exactly one shape. Blocks are as high as a power of two, so that any number of
/// rows runs compiled shapes. For float; other types use the portable tile.
struct libxsmm_tile {
  static int rows_of(int left) { return left >= row_block ? row_block : power_below(left); }
  static constexpr int depth_step = 4;  // a depth of one or two costs as much
  static int depth_of(int left) {
    return left >= depth_block ? depth_block : power_below((left + depth_step - 1) / depth_step * depth_step);
  }
  // libxsmm's code for a part of a vector is slow below AVX-512. In blocks of one vector and few rows, it adds every
  // second or fourth product separately there: the sum of several products would not be that of one.
  template <class T, bool Transposed>
  static int columns_of(int left) {
    if constexpr (!std::is_same_v<T, float>) return portable_tile::columns_of<T, Transposed>(left);
    else return Transposed && left <= 16 ? 24 : (left + 7) / 8 * 8;
  }

  template <class T, bool Transposed>
  GPIPE_COLD static void prepare(int rows, int columns, int k, int lda, int ldc, bool accumulate) {
    if constexpr (std::is_same_v<T, float>)
      if (!find<T, Transposed>(rows, columns, k, lda, ldc, accumulate)) no_kernel(rows, k, columns);
  }

  template <class T, bool Transposed>
  static auto find(int rows, int columns, int k, int lda, int ldc, bool accumulate) {
    if constexpr (std::is_same_v<T, float>)
      return on_swapped{libxsmm_kernels::find({rows, columns, k, lda, ldc, accumulate, Transposed})};
    else return portable_tile::find<T, Transposed>(rows, columns, k, lda, ldc, accumulate);
  }

 private:
  [[noreturn]] GPIPE_COLD static void no_kernel(int rows, int k, int columns) {
    gpipe::detail::throw_error({"libxsmm has no kernel for the product of ", rows, " x ", k, " by ", k, " x ", columns},
                               {"build without GPIPE_WITH_LIBXSMM on this kind of machine, or, if the address space "
                                "is limited (",
                                gpipe::detail::address_space_left(), " bytes left), raise ulimit -v"});
  }

  struct on_swapped {  // libxsmm's A is our B
    libxsmm_smmfunction kernel;
    void operator()(const float* a, const float* b, float* c, const float* next) const {
      kernel(b, a, c, next, nullptr, nullptr);
    }
    explicit operator bool() const { return kernel != nullptr; }
  };
  static int power_below(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
};

}  // namespace gpipe::host
