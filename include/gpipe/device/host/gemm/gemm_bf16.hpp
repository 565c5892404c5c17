#pragma once

#include <algorithm>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/gemm/gemm.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

// assumes: half precision is bf16
/// Matrix products of bf16, in addition to `gemm`'s: A's rows and B's panels are converted to float block by
/// block, the tile multiplies these, and a block of C is rounded when its sums are complete.
template <class Tile>
struct gemm_with_bf16 : gemm<Tile> {
  using gemm<Tile>::multiply;

  /// As in `gemm`, but `start` is a row of floats.
  GPIPE_OUT_OF_LINE static void multiply(int rows, int n, int k, const bf16* a, const bf16* b, bf16* c, bool accumulate,
                                         const float* start = nullptr) {
    using detail::copy, detail::offset;
    alignas(gpipe::detail::alignment) float left[rows_at_once * depth_at_once], right[depth_at_once * panel_width];
    alignas(gpipe::detail::alignment) float sums[rows_at_once * panel_width];
    for (int row = 0; row < rows; row += rows_at_once) {
      const int count = (std::min)(rows_at_once, rows - row);
      int held = -1;  // column of A at which the content of `left` begins: with a small k it serves for all of B
      for (int column = 0; column < n; column += panel_width) {
        const int width = (std::min)(panel_width, n - column);
        const auto out = [&](int r) { return c + offset(row + r, n) + column; };
        if (start != nullptr || accumulate) {
          for (int r = 0; r < count; ++r)
            if (float* sum_row = sums + offset(r, panel_width); start != nullptr) copy(width, start + column, sum_row);
            else copy(width, out(r), sum_row);
        }
        for (int inner = 0; inner < k; inner += depth_at_once) {
          const int depth = (std::min)(depth_at_once, k - inner);
          if (held != inner)
            for (int r = 0; r < count; ++r)
              copy(depth, a + offset(row + r, k) + inner, left + offset(r, depth_at_once));
          held = inner;
          copy(depth * panel_width, b + offset(column, k) + offset(inner, panel_width), right);
          multiply_block(count, depth, start != nullptr || accumulate || inner > 0, left, right, sums);
        }
        for (int r = 0; r < count; ++r) copy(width, sums + offset(r, panel_width), out(r));
      }
    }
  }

  /// Prepares the tiles of `multiply`, for any number of rows.
  template <class T>
  static void prepare_multiply(int n, int k) {
    if constexpr (std::is_same_v<T, bf16>) {
      for (int inner = 0; inner < k; inner += depth_at_once)
        for (int height = row_block; height > 0; height /= 2)
          for (const bool add : {false, true})
            Tile::template prepare<float, false>(height, panel_width, (std::min)(depth_at_once, k - inner),
                                                 depth_at_once, panel_width, add);
    } else {
      gemm<Tile>::template prepare_multiply<T>(n, k);
    }
  }

 private:
  // 64 KiB, 32 KiB and 8 KiB of floats. Each is converted once for as many products as the other has rows or columns.
  static constexpr int rows_at_once = 64, depth_at_once = 256;

  static void multiply_block(int rows, int depth, bool add, const float* left, const float* right, float* sums) {
    using detail::offset;
    for (int row = 0, height; row < rows; row += height) {
      height = Tile::rows_of(rows - row);
      Tile::template find<float, false>(height, panel_width, depth, depth_at_once, panel_width, add)(
          left + offset(row, depth_at_once), right, sums + offset(row, panel_width), right);
    }
  }
};

}  // namespace gpipe::host
