#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::cuda::detail {

// A tile of 32 x 32 elements goes through shared memory, so that the threads of a warp read neighbours, which are in a
// row of the source, and write neighbours, which are in a row of the result. Rows in shared memory have one element
// more: then the elements of a column are in different banks.

inline constexpr int transposing_tile = 32, transposing_lines = 8;  ///< a block's threads: tile x lines

GPIPE_HOST_DEVICE inline std::ptrdiff_t transposing_tiles(int rows, int padded) {
  return std::ptrdiff_t{(rows + transposing_tile - 1) / transposing_tile} * (padded / transposing_tile);
}

/// Rows of the transpose of a matrix {columns, rows}, rounded to T and each padded with zeros to `padded` elements, a
/// multiple of the tile. The source has `stride` elements from row to row.
template <class T>
__global__ void __launch_bounds__(transposing_tile* transposing_lines)
    transpose(int rows, int columns, int padded, const compute_type<T>* source, int stride, T* into) {
  constexpr int tile = transposing_tile;
  __shared__ compute_type<T> held[tile][tile + 1];
  const int across = padded / tile, x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::ptrdiff_t index = blockIdx.x; index < transposing_tiles(rows, padded); index += gridDim.x) {
    const int row = static_cast<int>(index / across) * tile, column = static_cast<int>(index % across) * tile;
    __syncthreads();  // all threads are done with the tile before
    for (int i = y; i < tile; i += transposing_lines) {
      const bool inside = row + x < rows && column + i < columns;
      held[i][x] = inside ? source[std::ptrdiff_t{column + i} * stride + row + x] : compute_type<T>(0);
    }
    __syncthreads();
    for (int i = y; i < tile && row + i < rows; i += transposing_lines)
      into[std::ptrdiff_t{row + i} * padded + column + x] = T(held[x][i]);
  }
}

// cuBLASLt's fast kernels of bf16 want rows that begin at 16 bytes. With rows of 50,257 words, which do not, a product
// takes more than three times as long (bench/gpu_times). So long rows are copied to rows with gaps, and back.

template <class T>
constexpr bool begins_anywhere(int columns) {
  constexpr int long_row = 4096, vector = 16;
  return std::is_same_v<T, bf16> && columns >= long_row && columns * static_cast<int>(sizeof(T)) % vector != 0;
}

/// The columns of a row that a block of `copy_rows` copies: threads x elements of a thread.
inline constexpr int copying_threads = 256, copied_at_once = 8, copied_columns = copying_threads * copied_at_once;
GPIPE_HOST_DEVICE inline std::ptrdiff_t parts_of_row(int columns) {
  return (columns + copied_columns - 1) / copied_columns;
}

/// Copies a matrix {rows, columns} with other gaps between its rows, one by one: rows may begin anywhere.
template <class T>
__global__ void __launch_bounds__(copying_threads)
    copy_rows(std::ptrdiff_t rows, int columns, const T* from, int from_stride, T* into, int into_stride) {
  const std::ptrdiff_t parts = parts_of_row(columns);
  for (std::ptrdiff_t index = blockIdx.x; index < rows * parts; index += gridDim.x) {
    const std::ptrdiff_t row = index / parts;
    const int first = static_cast<int>(index % parts) * copied_columns + static_cast<int>(threadIdx.x);
    T held[copied_at_once];
    _Pragma("unroll") for (int i = 0; i < copied_at_once; ++i) if (const int column = first + i * copying_threads;
                                                                   column < columns) held[i] =
        from[row * from_stride + column];
    _Pragma("unroll") for (int i = 0; i < copied_at_once; ++i) if (const int column = first + i * copying_threads;
                                                                   column < columns) into[row * into_stride + column] =
        held[i];
  }
}

GPIPE_HOST_DEVICE constexpr int whole_terms(int k) { return k / 8 * 8; }

/// Adds the terms behind `whole_terms(k)` to a product's sums, and rounds them.
struct last_terms {
  const float* sums;
  const bf16 *a, *b;
  bf16* c;
  int n, b_stride, k;
  bool accumulate;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::ptrdiff_t row = i / n;
    const auto column = static_cast<int>(i % n);
    float sum = sums[i];
    for (int t = whole_terms(k); t < k; ++t)
      sum += static_cast<float>(a[row * k + t]) * static_cast<float>(b[std::ptrdiff_t{t} * b_stride + column]);
    if (accumulate) sum += static_cast<float>(c[i]);
    c[i] = bf16(sum);
  }
};

}  // namespace gpipe::cuda::detail
