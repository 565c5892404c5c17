#pragma once

#include <algorithm>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/gemm_transposed.hpp>
#include <gpipe/device/host/gemm/product_sharing.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// Products with a packed matrix, in blocks that a tile multiplies, and transposed products.
template <class Tile>
struct gemm : gemm_transposed<Tile> {
  /// C[rows x n] = A[rows x k] * B + start, with B packed. `start` is one row, added to every row of C. If it is null,
  /// the start is C itself when accumulating, else zero. Threads that share products compute a part of the columns
  /// each.
  template <class T>
  static void multiply(int rows, int n, int k, const T* a, const T* b, T* c, bool accumulate,
                       const T* start = nullptr) {
    product_sharing* const sharing = sharing_of_thread;
    if (sharing == nullptr || std::ptrdiff_t{n} * k < smallest_shared)
      return multiply_columns(0, n, rows, n, k, a, b, c, accumulate, start);
    const int parts = sharing->threads();
    const auto part = [&](int i) {
      const int panels = (n + panel_width - 1) / panel_width;
      const auto column = [&](int share) {
        return (std::min)(n, static_cast<int>(std::ptrdiff_t{panels} * share / parts) * panel_width);
      };
      multiply_columns(column(i), column(i + 1), rows, n, k, a, b, c, accumulate, start);
    };
    sharing->run([](const void* function, int i) { (*static_cast<decltype(&part)>(function))(i); }, &part);
  }

  /// The columns [begin, end) of `multiply`; both are n or a multiple of the panels' width.
  template <class T>
  GPIPE_OUT_OF_LINE static void multiply_columns(int begin, int end, int rows, int n, int k, const T* a, const T* b,
                                                 T* c, bool accumulate, const T* start) {
    using detail::offset;
    const int last = end == n ? n % panel_width : 0, full = end - last;
    for (int inner = 0; inner < k; inner += inner_block) {
      const int depth = (std::min)(inner_block, k - inner);
      const T* row_of_start = inner == 0 ? start : nullptr;
      const bool add = accumulate || start || inner > 0;
      for (int row = 0; row < rows;) {
        // A run of blocks of equal height, for which the tile is looked up once.
        const int height = Tile::rows_of(rows - row), run_end = row + (rows - row) / height * height;
        const auto panel = [&](int column) { return b + offset(column, k) + offset(inner, panel_width); };
        if (begin < full) {
          const auto tile = Tile::template find<T, false>(height, panel_width, depth, k, n, add);
          for (int column = begin; column < full; column += panel_width) {
            const T* next = panel(column + panel_width < end ? column + panel_width : column);
            for (int i = row; i < run_end; i += height) {
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
          for (int i = row; i < run_end; i += height)
            detail::at_edge(height, last, c + offset(i, n) + full, n, add, row_of_start ? row_of_start + full : nullptr,
                            [&](T* out) { tile(a + offset(i, k) + inner, panel(full), out, panel(full)); });
        }
        row = run_end;
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
