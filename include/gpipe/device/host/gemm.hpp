#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/dtype.hpp>
#include <gpipe/layer/panels.hpp>
#include <gpipe/layer/row_parts.hpp>

namespace gpipe::host {

inline constexpr int row_block = 32, inner_block = 512, depth_block = 256;

/// Matrix products in blocks, around a `Tile` that knows how to multiply one block:
///
///     Tile::rows_of(left)         how many of the `left` rows the next block takes, at most `row_block`
///     Tile::depth_of(left)        the same for the inner extent of a transposed product, at most `depth_block`; more
///                                 than is left stands for rows of zeros
///     Tile::columns_of<T, Transposed>(left)   how many columns are computed where fewer than a panel's are left
///     Tile::find<T, Transposed>(rows, columns, k, lda, ldc, accumulate)
///                                 a function (a, b, c, next):  c[rows x columns] (+)= a[rows x k] * b, where b is a
///                                 panel; if transposed, a[k x rows]. It may bring `next` nearer meanwhile, the panel
///                                 that follows (or b once more). After `Tile::prepare` of the same arguments it
///                                 neither allocates nor compiles.
///
/// All matrices are row-major. The bits of an element depend on its row and its column, and with some tiles on the
/// height of its block (libxsmm sums short blocks in another order where it has AVX-512): never on where the matrices
/// lie or what other rows hold. The portable tile sums in ascending order of the inner index whatever the height. A
/// transposed product adds row after row to what C holds: in one product or in several, the bits are the same.
template <class Tile>
struct gemm {
  /// C[rows x n] = A[rows x k] * B + start, with B packed. `start` is one row, for every row of C; null: C itself if
  /// accumulating, else zero.
  template <class T>
  GPIPE_OUT_OF_LINE static void multiply(int rows, int n, int k, const T* a, const T* b, T* c, bool accumulate,
                                         const T* start = nullptr) {
    const int last = n % panel_width, full = n - last;
    for (int inner = 0; inner < k; inner += inner_block) {
      const int depth = (std::min)(inner_block, k - inner);
      const T* row_of_start = inner == 0 ? start : nullptr;
      const bool add = accumulate || start || inner > 0;
      for (int row = 0; row < rows;) {
        // A run of blocks of equal height, so that the tile is looked up once.
        const int height = Tile::rows_of(rows - row), end = row + (rows - row) / height * height;
        const auto panel = [&](int column) { return b + offset(column, k) + offset(inner, panel_width); };
        if (full) {
          const auto tile = Tile::template find<T, false>(height, panel_width, depth, k, n, add);
          for (int column = 0; column < full; column += panel_width) {
            const T* next = panel(column + panel_width < n ? column + panel_width : column);
            for (int i = row; i < end; i += height) {
              T* out = c + offset(i, n) + column;
              if (row_of_start)
                for (int r = 0; r < height; ++r) copy(panel_width, row_of_start + column, out + offset(r, n));
              tile(a + offset(i, k) + inner, panel(column), out, next);
            }
          }
        }
        if (last) {
          const int columns = Tile::template columns_of<T, false>(last);
          const auto tile = Tile::template find<T, false>(height, columns, depth, k, panel_width, add);
          for (int i = row; i < end; i += height)
            at_edge(height, last, c + offset(i, n) + full, n, add, row_of_start ? row_of_start + full : nullptr,
                    [&](T* out) { tile(a + offset(i, k) + inner, panel(full), out, panel(full)); });
        }
        row = end;
      }
    }
  }

  /// C[m x n] += A[rows x m]^T * B[rows x n], whose rows lie in as many places. Both are packed as they are used: rows
  /// a power of two apart would fall on the same few lines of the cache. What is bf16 becomes float there.
  template <class From>
  GPIPE_OUT_OF_LINE static void multiply_transposed(int m, int n, int rows, const row_parts<From>& a,
                                                    const row_parts<From>& b, compute_type<From>* c) {
    using T = compute_type<From>;
    alignas(alignment) T left[depth_block * panel_width];
    alignas(alignment) T right[packed_elements];
    for (int row = 0, depth; row < rows; row += depth) {
      depth = Tile::depth_of(rows - row);
      const int filled = (std::min)(depth, rows - row);
      const int width = packed_elements / depth / panel_width * panel_width;
      for (int first = 0; first < n; first += width) {
        const int until = (std::min)(n, first + width), last = (until - first) % panel_width, full = until - last;
        const auto panel = [&](int column) { return right + offset(column - first, depth); };
        for (int column = first; column < until; column += panel_width)
          pack_panel(depth, filled, (std::min)(panel_width, n - column), b, row, column, n, panel(column));
        for (int i = 0; i < m; i += panel_width) {
          const int height = (std::min)(panel_width, m - i);
          pack_panel(depth, filled, height, a, row, i, m, left);
          if (full > first) {
            const auto tile = Tile::template find<T, true>(height, panel_width, depth, panel_width, n, true);
            for (int column = first; column < full; column += panel_width)
              tile(left, panel(column), c + offset(i, n) + column, panel(column));
          }
          if (last) {
            const auto tile = Tile::template find<T, true>(height, Tile::template columns_of<T, true>(last), depth,
                                                           panel_width, panel_width, true);
            at_edge(height, last, c + offset(i, n) + full, n, true, static_cast<const T*>(nullptr),
                    [&](T* out) { tile(left, panel(full), out, panel(full)); });
          }
        }
      }
    }
  }

  /// Makes ready what `multiply` looks up, for any number of rows.
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
  template <class T>
  static void prepare_multiply_transposed(int m, int n) {
    const int last = n % panel_width;
    for (const int height : {m % panel_width, panel_width})
      for (int depth = depth_block; depth > 0 && height > 0 && height <= m; depth /= 2) {
        if (n > last) Tile::template prepare<T, true>(height, panel_width, depth, panel_width, n, true);
        if (last)
          Tile::template prepare<T, true>(height, Tile::template columns_of<T, true>(last), depth, panel_width,
                                          panel_width, true);
      }
  }

 protected:
  static constexpr int packed_elements = 16384;

  static constexpr std::ptrdiff_t offset(int index, int stride) { return std::ptrdiff_t{index} * stride; }

  template <class From, class T>
  static void copy(int count, const From* from, T* into) {
    if constexpr (std::is_same_v<From, T>) std::memcpy(into, from, sizeof(T) * static_cast<std::size_t>(count));
    else
      for (int i = 0; i < count; ++i) into[i] = from[i];
  }

  // Where C ends inside a panel the block is made beside it, whole vectors wide, and its true columns are copied.
  template <class T, class Multiply>
  static void at_edge(int height, int columns, T* c, int ldc, bool add, const T* start, Multiply multiply) {
    alignas(alignment) T block[row_block * panel_width];
    if (add) {
      std::memset(block, 0, sizeof block);
      for (int r = 0; r < height; ++r)
        copy(columns, start ? start : c + offset(r, ldc), block + offset(r, panel_width));
    }
    multiply(block);
    for (int r = 0; r < height; ++r) copy(columns, block + offset(r, panel_width), c + offset(r, ldc));
  }

  template <class From, class T>
  static void pack_panel(int rows, int filled, int columns, const row_parts<From>& source, int first, int column,
                         int stride, T* into) {
    if (filled < rows || columns < panel_width)
      std::memset(into, 0, sizeof(T) * static_cast<std::size_t>(rows * panel_width));
    int part = first / source.rows, inside = first % source.rows;
    const From* from = source.part[part] + offset(inside, stride) + column;
    for (int row = 0; row < filled; ++row, ++inside, from += stride, into += panel_width) {
      if (inside == source.rows) {
        inside = 0;
        from = source.part[++part] + column;
      }
      if (columns == panel_width) copy(panel_width, from, into);  // of a length that the compiler knows
      else copy(columns, from, into);
    }
  }
};

}  // namespace gpipe::host
