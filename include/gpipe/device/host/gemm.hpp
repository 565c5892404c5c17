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
///     Tile::depth_of(left)        the same for the inner extent of a transposed product, at most `depth_block`: a
///                                 multiple of `Tile::depth_step`, filled up with rows of zeros
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

  /// C[m x n] += A[rows x m]^T * B[rows x n], whose rows lie in as many parts of A and B: with the bits of one product
  /// after the other.
  template <class From>
  static void multiply_transposed(int m, int n, int rows, const row_parts<From>& a, const row_parts<From>& b,
                                  compute_type<From>* c) {
    // Rows of zeros that fill up a depth make a zero's sign plus: where parts are filled up, each for itself.
    if (a.rows % Tile::depth_step == 0) return multiply_panels(m, n, rows, a, b, c);
    for (int i = 0; rows > 0; ++i, rows -= a.rows)
      multiply_panels<From>(m, n, (std::min)(rows, a.rows), {{a.part[i]}, a.rows}, {{b.part[i]}, b.rows}, c);
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
  static constexpr int packed_bytes = 128 * 1024;  // of the second-level cache, and of the stack
  static constexpr int deep = 128;  // from here on a block takes longer than asking for the next

  static constexpr std::ptrdiff_t offset(int index, int stride) { return std::ptrdiff_t{index} * stride; }

  template <class From, class T>
  static void copy(int count, const From* from, T* into) {
    if constexpr (std::is_same_v<From, T>) std::memcpy(into, from, sizeof(T) * static_cast<std::size_t>(count));
    else
      for (int i = 0; i < count; ++i) into[i] = from[i];
  }

  // A and B are packed as they are used: rows a power of two apart would fall on the same few lines of the cache. Of
  // one as many panels as there is room for are packed and stay, the other's come one at a time; meanwhile the next
  // block of C is brought nearer. What is bf16 becomes float there.
  //
  //                  a panel of B, then the next                        the panels of B that stay
  //     the panels   +---+                             a panel of A,    +---+---+---+
  //     of A that    | 1 |               or            then the next    | 1 | 2 | 3 |
  //     stay         | 2 |
  template <class From>
  GPIPE_OUT_OF_LINE static void multiply_panels(int m, int n, int rows, const row_parts<From>& a,
                                                const row_parts<From>& b, compute_type<From>* c) {
    using T = compute_type<From>;
    constexpr int room = packed_bytes / sizeof(T);
    alignas(alignment) T stays[room], passes[depth_block * panel_width];
    for (int row = 0, depth; row < rows; row += depth) {
      depth = Tile::depth_of(rows - row);
      const int filled = (std::min)(depth, rows - row), most = room / depth / panel_width * panel_width;
      // The narrower one, for it may stay whole. But C is walked down only where its next block is fetched.
      const bool a_stays = m <= n && depth >= deep;
      const row_parts<From>&staying = a_stays ? a : b, &passing = a_stays ? b : a;
      const int width = a_stays ? m : n, length = a_stays ? n : m;
      for (int first = 0; first < width; first += most) {
        const int until = (std::min)(width, first + most), full = until - (until - first) % panel_width;
        const auto panel = [&](int at) { return stays + offset(at - first, depth); };
        const auto block = [&](int at, int next) {
          return a_stays ? c + offset(at, n) + next : c + offset(next, n) + at;
        };
        for (int at = first; at < until; at += panel_width)
          pack_panel(depth, filled, at, width, staying, row, panel(at));
        for (int next = 0; next < length; next += panel_width) {
          pack_panel(depth, filled, next, length, passing, row, passes);
          // Blocks of one shape, of the panels [from, to).
          const auto run = [&](int from, int to) {
            if (from == to) return;
            const int height = (std::min)(panel_width, m - (a_stays ? from : next));
            const int columns = (std::min)(panel_width, n - (a_stays ? next : from));
            const bool whole = columns == panel_width;
            const auto tile = Tile::template find<T, true>(
                height, whole ? panel_width : Tile::template columns_of<T, true>(columns), depth, panel_width,
                whole ? n : panel_width, true);
            for (int at = from; at < to; at += panel_width) {
              const T *left = a_stays ? panel(at) : passes, *right = a_stays ? passes : panel(at);
              const auto multiply_into = [&](T* out) { tile(left, right, out, right); };
              if (!whole) {
                at_edge(height, columns, block(at, next), n, true, static_cast<const T*>(nullptr), multiply_into);
                continue;
              }
              const bool last = at + panel_width >= until;
              const int beyond = last ? next + panel_width : next;
              if (depth >= deep && beyond < length) fetch(height, block(last ? first : at + panel_width, beyond), n);
              multiply_into(block(at, next));
            }
          };
          run(first, full);
          run(full, until);
        }
      }
    }
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

  // Of `filled` rows that begin with the row `first`, and of zeros.
  template <class From, class T>
  static void pack_panel(int rows, int filled, int column, int stride, const row_parts<From>& source, int first,
                         T* into) {
    const int columns = (std::min)(panel_width, stride - column);
    if (filled < rows || columns < panel_width)
      std::memset(into, 0, sizeof(T) * static_cast<std::size_t>(rows * panel_width));
    int part = first / source.rows, inside = first % source.rows;
    const From* from = source.part[part] + offset(inside, stride) + column;
    for (int row = 0; row < filled; ++row, ++inside, from += stride, into += panel_width) {
      if (inside == source.rows) {
        inside = 0;
        from = source.part[++part] + column;
      }
      if (column + panel_width < stride) fetch(1, from + panel_width, stride);  // for the next panel
      if (columns == panel_width) copy(panel_width, from, into);  // of a length that the compiler knows
      else copy(columns, from, into);
    }
  }

  // Asks for rows of a panel, soon to be read, from the memory into the second-level cache.
  template <class T>
  static void fetch(int rows, const T* from, int stride) {
    constexpr int line = 64 / static_cast<int>(sizeof(T));
    for (int row = 0; row < rows; ++row, from += stride)
      for (int column = 0; column < panel_width; column += line) __builtin_prefetch(from + column, 0, 2);
  }
};

}  // namespace gpipe::host
