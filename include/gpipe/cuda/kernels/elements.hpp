#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::cuda::detail {

// Element-wise functors of the context.

template <class T>
struct set_to {
  T* array;
  T value;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { array[i] = value; }
};

/// Rows of a matrix, each padded with zeros to `padded` elements.
template <class T>
struct packing {
  const compute_type<T>* source;
  T* packed;
  int columns, padded, stride;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::ptrdiff_t row = i / padded, column = i % padded;
    packed[i] = column < columns ? T(source[row * stride + column]) : T(0);
  }
};

template <class T>
struct entries {
  const T* values;
  int stride;
  GPIPE_HOST_DEVICE compute_type<T> operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return values[row * stride + column];
  }
};

/// A repeated row, rounded if T rounds its elements.
template <class Row, class T>
struct repeat_row {
  const Row* row;
  T* rows;
  int n;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { rows[i] = row[i % n]; }
};

// A tile of 32 x 32 elements is transposed in shared memory, so that the threads of a warp read neighbours in a row of
// the source, and write neighbours in a row of the result. Rows in shared memory have one additional element, so that
// the elements of a column are in different banks.

inline constexpr int transposing_tile = 32, transposing_lines = 8;  ///< a block's threads: tile x lines

GPIPE_HOST_DEVICE inline std::ptrdiff_t transposing_tiles(int rows, int padded) {
  return std::ptrdiff_t{(rows + transposing_tile - 1) / transposing_tile} * (padded / transposing_tile);
}

/// Rows of the transpose of a matrix {columns, rows}, rounded to T and each padded with zeros to `padded` elements, a
/// multiple of the tile. The source has `stride` elements from row to row.
template <class T>
__global__ void __launch_bounds__(transposing_tile* transposing_lines)
    transpose(int rows, int columns, int padded, const compute_type<T>* source, int stride, T* result) {
  constexpr int tile = transposing_tile;
  __shared__ compute_type<T> held[tile][tile + 1];
  const int across = padded / tile, x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (std::ptrdiff_t index = blockIdx.x; index < transposing_tiles(rows, padded); index += gridDim.x) {
    const int row = static_cast<int>(index / across) * tile, column = static_cast<int>(index % across) * tile;
    __syncthreads();  // all threads are done with the previous tile
    for (int i = y; i < tile; i += transposing_lines) {
      const bool inside = row + x < rows && column + i < columns;
      held[i][x] = inside ? source[std::ptrdiff_t{column + i} * stride + row + x] : compute_type<T>(0);
    }
    __syncthreads();
    for (int i = y; i < tile && row + i < rows; i += transposing_lines)
      result[std::ptrdiff_t{row + i} * padded + column + x] = T(held[x][i]);
  }
}

}  // namespace gpipe::cuda::detail
