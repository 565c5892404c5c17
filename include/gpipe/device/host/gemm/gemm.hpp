#pragma once

#include <algorithm>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/gemm_transposed.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// Products with a packed matrix, in blocks that a tile multiplies, and transposed products.
template <class Tile>
struct gemm : gemm_transposed<Tile> {
  /// C[rows x n] = A[rows x k] * B + start, with B packed. `start` is one row, added to every row of C. If it is null,
  /// the start is C itself when accumulating, else zero.
  template <class T>
  GPIPE_OUT_OF_LINE static void multiply(int rows, int n, int k, const T* a, const T* b, T* c, bool accumulate,
                                         const T* start = nullptr) {
    using detail::offset;
    const int last = n % panel_width, full = n - last;
    for (int inner = 0; inner < k; inner += inner_block) {
      const int depth = (std::min)(inner_block, k - inner);
      const T* row_of_start = inner == 0 ? start : nullptr;
      const bool add = accumulate || start || inner > 0;
      for (int row = 0; row < rows;) {
        // A run of blocks of equal height, for which the tile is looked up once.
        const int height = Tile::rows_of(rows - row), end = row + (rows - row) / height * height;
        const auto panel = [&](int column) { return b + offset(column, k) + offset(inner, panel_width); };
        if (full) {
          const auto tile = Tile::template find<T, false>(height, panel_width, depth, k, n, add);
          for (int column = 0; column < full; column += panel_width) {
            const T* next = panel(column + panel_width < n ? column + panel_width : column);
            for (int i = row; i < end; i += height) {
              T* out = c + offset(i, n) + column;
              if (row_of_start)
                for (int r = 0; r < height; ++r) detail::copy(panel_width, row_of_start + column, out + offset(r, n));
              tile(a + offset(i, k) + inner, panel(column), out, next);
            }
          }
        }
        if (last) {
          const int columns = Tile::template columns_of<T, false>(last);
          const auto tile = Tile::template find<T, false>(height, columns, depth, k, panel_width, add);
          for (int i = row; i < end; i += height)
            detail::at_edge(height, last, c + offset(i, n) + full, n, add, row_of_start ? row_of_start + full : nullptr,
                            [&](T* out) { tile(a + offset(i, k) + inner, panel(full), out, panel(full)); });
        }
        row = end;
      }
    }
  }

  /// Prepares the tiles of `multiply`, for any number of rows.
  template <class T>
  static void prepare_multiply(int n, int k) {
    const int last = n % panel_width;
    for (int inner = 0; inner < k; inner += inner_block)
      for (int height = row_block; height > 0; height /= 2)
        for (const bool add : {false, true}) {
          const int depth = (std::min)(inner_block, k - inner);
          if (n > last) Tile::template prepare<T, false>(height, panel_width, depth, k, n, add);
          if (last)
            Tile::template prepare<T, false>(height, Tile::template columns_of<T, false>(last), depth, k, panel_width,
                                             add);
        }
  }
};

}  // namespace gpipe::host
