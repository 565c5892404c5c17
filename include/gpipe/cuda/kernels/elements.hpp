#pragma once

#include <cstddef>

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

}  // namespace gpipe::cuda::detail
