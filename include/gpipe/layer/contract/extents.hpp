#pragma once

#include <array>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe::detail {

/// Many layers act on the last extent only; the other extents and the samples count as rows.
///
///     tensor<float, 128, 64>:  last_extent 64, rows_in 128 (per sample), with_last<..., 10> tensor<float, 128, 10>
template <class Tensor>
inline constexpr int last_extent = Tensor::extents[Tensor::rank - 1];

/// Rows of one sample.
template <class Tensor>
inline constexpr int rows_in = static_cast<int>(Tensor::size) / last_extent<Tensor>;

template <class Before, class Tensor, int Last>
struct replace_last;
template <class T, int... Before, int First, int Second, int... Rest, int Last>
struct replace_last<tensor<T, Before...>, tensor<T, First, Second, Rest...>, Last>
    : replace_last<tensor<T, Before..., First>, tensor<T, Second, Rest...>, Last> {};
template <class T, int... Before, int Only, int Last>
struct replace_last<tensor<T, Before...>, tensor<T, Only>, Last> {
  using type = tensor<T, Before..., Last>;
};

/// The same tensor type with another last extent.
template <class Tensor, int Last>
using with_last = typename detail::replace_last<tensor<typename Tensor::value_type>, Tensor, Last>::type;

/// The sizes of a kind that works on rows.
struct row_sizes {
  int rows, width;  ///< of a sample; of a row

  constexpr std::ptrdiff_t count(int samples) const { return std::ptrdiff_t{samples} * rows; }
  constexpr std::ptrdiff_t elements() const { return std::ptrdiff_t{rows} * width; }
};
template <class Tensor>
inline constexpr row_sizes row_sizes_of{rows_in<Tensor>, last_extent<Tensor>};

/// Adds a table of rows to each sample, row by row; in place, if `in` is `out`.
template <class T>
struct add_rows_of_table {
  const T* in;
  const compute_type<T>* table;
  std::ptrdiff_t rows, width;
  T* out;
  std::ptrdiff_t row_width() const { return width; }
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const T* x = in + row * width;
    const compute_type<T>* t = table + row % rows * width;
    T* y = out + row * width;
    team.each(width, [=](std::ptrdiff_t i) { y[i] = compute_type<T>(x[i]) + t[i]; });
  }
};

/// The elements of rows, for sums of columns.
template <class T>
struct row_entries {
  const T* values;
  std::ptrdiff_t width;
  GPIPE_HOST_DEVICE compute_type<T> operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return values[row * width + column];
  }
};

}  // namespace gpipe::detail
