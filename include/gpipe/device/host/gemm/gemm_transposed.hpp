#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe::host {

/// Transposed products, in blocks that a tile multiplies. Each row is added to C in order: one product or several give
/// the same bits.
template <class Tile>
struct gemm_transposed {
  /// C[m x n] += A[rows x m]^T * B[rows x n], with the rows in several parts of A and B. The bits are those of one
  /// product after the other.
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
        for (int at = first; at < until; at += panel_width) staying.pack(at, panels.staying(at));
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
    void pack(int column, T* into) const {
      const int columns = (std::min)(panel_width, width - column);
      if (columns < panel_width) std::memset(into, 0, sizeof(T) * static_cast<std::size_t>(depth * panel_width));
      int part = first / source.rows, inside = first % source.rows;
      const From* from = source.part[part] + detail::offset(inside, width) + column;
      for (int row = 0; row < filled; ++row, ++inside, from += width, into += panel_width) {
        if (inside == source.rows) {
          inside = 0;
          from = source.part[++part] + column;
        }
        if (column + panel_width < width) fetch(1, from + panel_width, width);  // for the next panel
        if (columns == panel_width) detail::copy(panel_width, from, into);      // a length known at compile time
        else detail::copy(columns, from, into);
      }
      std::fill_n(into, detail::offset(depth - filled, panel_width), static_cast<T>(zero));
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

    T* staying(int at) const { return stays + detail::offset(at - first, depth); }

    // Multiplies all panels that stay with the panel that passes, which begins with the column `next`.
    void multiply(int next) const {
      const int full = until - (until - first) % panel_width;
      run(first, full, next);
      run(full, until, next);
    }

   private:
    T* block(int at, int next) const {
      return a_stays ? c + detail::offset(at, n) + next : c + detail::offset(next, n) + at;
    }

    // Blocks of one shape, of the panels [from, to) that stay: the tile is looked up once.
    void run(int from, int to, int next) const {
      if (from == to) return;
      const int height = (std::min)(panel_width, m - (a_stays ? from : next));
      const int columns = (std::min)(panel_width, n - (a_stays ? next : from));
      const bool whole = columns == panel_width;
      const auto tile =
          Tile::template find<T, true>(height, whole ? panel_width : Tile::template columns_of<T, true>(columns), depth,
                                       panel_width, whole ? n : panel_width, true);
      for (int at = from; at < to; at += panel_width) {
        const T *left = a_stays ? staying(at) : passes, *right = a_stays ? passes : staying(at);
        const auto multiply_into = [&](T* out) { tile(left, right, out, right); };
        if (whole) {
          if (const T* soon = depth >= deep ? after(at, next) : nullptr) fetch(height, soon, n);
          multiply_into(block(at, next));
        } else {
          detail::at_edge(height, columns, block(at, next), n, true, nullptr, multiply_into);
        }
      }
    }

    // The block that comes after, or null after the last.
    const T* after(int at, int next) const {
      if (at + panel_width < until) return block(at + panel_width, next);
      return next + panel_width < (a_stays ? n : m) ? block(first, next + panel_width) : nullptr;
    }
  };

  // Prefetches rows of a panel from memory into the second-level cache. Always inline: g++ removes a call that seems to
  // change nothing.
  template <class T>
  [[gnu::always_inline]] static void fetch(int rows, const T* from, int stride) {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    for (int row = 0; row < rows; ++row, from += stride)
      for (int column = 0; column < panel_width; column += line) __builtin_prefetch(from + column, 0, 2);
  }
};

}  // namespace gpipe::host
