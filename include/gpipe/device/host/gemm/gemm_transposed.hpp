#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// Transposed products, in blocks that a tile multiplies. Each row is added to C in order: one product or several give
/// the same bits.
template <class Tile>
struct gemm_transposed {
  /// C[m x n] += A[rows x m]^T * B[rows x n], with the rows in several parts of A and B. The bits are the same as of
  /// one product after the other.
  template <class From>
  GPIPE_OUT_OF_LINE static void multiply_transposed(int m, int n, int rows, const row_parts<From>& a,
                                                    const row_parts<From>& b, compute_type<From>* c) {
    // A and B are packed as they are used: rows a power of two apart would share few lines of the cache. As many panels
    // of one factor as there is room for are packed and stay; the other's come one at a time. Meanwhile the next block
    // of C is prefetched. Elements of bf16 are converted to float there.
    //
    //                  a panel of B, then the next                        the panels of B that stay
    //     the panels   +---+                             a panel of A,    +---+---+---+
    //     of A that    | 1 |               or            then the next    | 1 | 2 | 3 |
    //     stay         | 2 |
    using T = compute_type<From>;
    constexpr int room = packed_bytes / sizeof(T);
    alignas(gpipe::detail::alignment) T stays[std::size_t{room}], passes[std::size_t{depth_block * panel_width}];
    for (int row = 0, depth; row < rows; row += depth) {
      depth = Tile::depth_of(rows - row);
      const int filled = (std::min)(depth, rows - row), max_width = room / depth / panel_width * panel_width;
      const factor<From> left{a, m, row, filled, depth, 0.0F}, right{b, n, row, filled, depth, -0.0F};
      // The narrower factor stays, for it may fit whole. But C is walked down only with prefetching of its next block.
      const bool a_stays = m <= n && depth >= deep;
      const factor<From>&staying = a_stays ? left : right, &passing = a_stays ? right : left;
      for (int first = 0; first < staying.width; first += max_width) {
        const int until = (std::min)(staying.width, first + max_width);
        const packed_panels<T> panels{stays, passes, depth, first, until, a_stays, m, n, c};
        for (int column = first; column < until; column += panel_width) staying.pack(column, panels.staying(column));
        for (int next = 0; next < passing.width; next += panel_width) {
          passing.pack(next, passes);
          panels.multiply(next);
        }
      }
    }
  }

  /// Prepares the tiles of `multiply_transposed`, for any number of rows.
  template <class From>
  static void prepare_multiply_transposed(int m, int n) {
    using T = compute_type<From>;
    const int last = n % panel_width;
    for (const int height : {m % panel_width, panel_width})
      for (int depth = depth_block; depth >= Tile::depth_step && height > 0 && height <= m; depth /= 2) {
        if (n > last) Tile::template prepare<T, true>(height, panel_width, depth, panel_width, n, true);
        if (last)
          Tile::template prepare<T, true>(height, Tile::template columns_of<T, true>(last), depth, panel_width,
                                          panel_width, true);
      }
  }

 private:
  static constexpr int packed_bytes = 128 * 1024;  // of the second-level cache, and of the stack
  static constexpr int deep = 128;                 // from this depth on a block takes longer than prefetching the next

  // `filled` rows of A or of B, from row `first` on, and rows of a zero up to `depth`. Their products are 0 * -0, which
  // changes no sum: 0 * 0 would change -0 to 0.
  template <class From>
  struct factor {
    const row_parts<From>& source;
    int width, first, filled, depth;
    float zero;

    // The panel that begins with `column`.
    template <class T>
    void pack(int column, T* packed) const {
      const int columns = (std::min)(panel_width, width - column);
      if (columns < panel_width) std::memset(packed, 0, sizeof(T) * static_cast<std::size_t>(depth * panel_width));
      int part = first / source.rows, part_row = first % source.rows;
      const From* values = source.part[part] + detail::offset(part_row, width) + column;
      for (int row = 0; row < filled; ++row, ++part_row, values += width, packed += panel_width) {
        if (part_row == source.rows) {
          part_row = 0;
          values = source.part[++part] + column;
        }
        if (column + panel_width < width) fetch(1, values + panel_width, width);  // for the next panel
        if (columns == panel_width) detail::copy(panel_width, values, packed);    // a length known at compile time
        else detail::copy(columns, values, packed);
      }
      std::fill_n(packed, detail::offset(depth - filled, panel_width), static_cast<T>(zero));
    }
  };

  // The panels that stay, packed one after the other, of the columns [first, until), and the panel that passes.
  template <class T>
  struct packed_panels {
    T *stays, *passes;
    int depth, first, until;
    bool a_stays;
    int m, n;
    T* c;

    T* staying(int column) const { return stays + detail::offset(column - first, depth); }

    // Multiplies all panels that stay with the panel that passes, which begins with the column `next`.
    void multiply(int next) const {
      const int full = until - (until - first) % panel_width;
      run(first, full, next);
      run(full, until, next);
    }

   private:
    T* block(int column, int next) const {
      return a_stays ? c + detail::offset(column, n) + next : c + detail::offset(next, n) + column;
    }

    // Blocks of one shape, of the panels [from, to) that stay: the tile is looked up once.
    void run(int begin, int end, int next) const {
      if (begin == end) return;
      const int height = (std::min)(panel_width, m - (a_stays ? begin : next));
      const int columns = (std::min)(panel_width, n - (a_stays ? next : begin));
      const bool whole = columns == panel_width;
      const auto tile =
          Tile::template find<T, true>(height, whole ? panel_width : Tile::template columns_of<T, true>(columns), depth,
                                       panel_width, whole ? n : panel_width, true);
      for (int column = begin; column < end; column += panel_width) {
        const T *left = a_stays ? staying(column) : passes, *right = a_stays ? passes : staying(column);
        const auto multiply_into = [&](T* out) { tile(left, right, out, right); };
        if (whole) {
          if (const T* soon = depth >= deep ? after(column, next) : nullptr) fetch(height, soon, n);
          multiply_into(block(column, next));
        } else {
          detail::at_edge(height, columns, block(column, next), n, true, nullptr, multiply_into);
        }
      }
    }

    // The block that comes after, or null after the last.
    const T* after(int column, int next) const {
      if (column + panel_width < until) return block(column + panel_width, next);
      return next + panel_width < (a_stays ? n : m) ? block(first, next + panel_width) : nullptr;
    }
  };

  // Prefetches rows of a panel from memory into the second-level cache. Always inline: g++ removes a call that seems to
  // change nothing.
  template <class T>
  [[gnu::always_inline]] static void fetch(int rows, const T* begin, int stride) {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    for (int row = 0; row < rows; ++row, begin += stride)
      for (int column = 0; column < panel_width; column += line) __builtin_prefetch(begin + column, 0, 2);
  }
};

}  // namespace gpipe::host
