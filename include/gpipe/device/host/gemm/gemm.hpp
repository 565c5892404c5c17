#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/gemm_transposed.hpp>
#include <gpipe/device/host/gemm/product_block.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

/// Other threads that take parts of a product. A product that reads much memory for little arithmetic, such as one
/// token times a layer's weight, takes half the time on two cores. Threads divide the columns of the product, so the
/// bits are the same as on one thread.
class product_sharing {
 public:
  virtual int threads() const = 0;
  /// Calls part(data, i) for i in [0, threads()), each on a separate thread, and returns when all have returned.
  virtual void run(void (*part)(const void* data, int i), const void* data) = 0;

 protected:
  ~product_sharing() = default;
};

/// The sharing of the products that this thread computes; null: it computes them alone.
inline constinit thread_local product_sharing* sharing_of_thread = nullptr;

/// A weight of fewer elements is multiplied before another thread has taken a part.
inline constexpr std::ptrdiff_t smallest_shared = 1 << 15;

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
