#pragma once

#include <cstddef>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe::detail {

/// A tensor cut along one extent into slices, each with separate memory, which `concat` and `split` copy. A row
/// contains that extent with all later ones; a row of the whole is the slices' rows, one after the other.
///
///     whole  | row 0: slice 0, slice 1 | row 1: slice 0, slice 1 | ...
///     parts  | row 0 | row 1 | ...   and   | row 0 | row 1 | ...
template <class T, int Count>
struct slices {
  std::ptrdiff_t width[std::size_t{Count}]{};  ///< elements in a slice's row
  T* part[std::size_t{Count}]{};               ///< null: the slice is left out
};

/// Copies the slices into the whole tensor.
template <class T, int Count>
struct join_rows {
  slices<const T, Count> parts;
  T* whole;
  std::ptrdiff_t width;  ///< of a row of the whole

  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    T* y = whole + row * width;
    for (int k = 0; k < Count; ++k) {
      const T* x = parts.part[k] + row * parts.width[k];
      team.each(parts.width[k], [=](std::ptrdiff_t i) { y[i] = x[i]; });
      y += parts.width[k];
    }
  }
};

/// Copies the whole tensor into the slices.
template <class T, int Count>
struct cut_rows {
  const T* whole;
  slices<T, Count> parts;
  std::ptrdiff_t width;  ///< of a row of the whole

  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const T* x = whole + row * width;
    for (int k = 0; k < Count; ++k) {
      if (T* part = parts.part[k]) {
        T* y = part + row * parts.width[k];
        team.each(parts.width[k], [=](std::ptrdiff_t i) { y[i] = x[i]; });
      }
      x += parts.width[k];
    }
  }
};

/// The extent's index, counted from the end if it is negative: -1 is the last.
constexpr int axis_of(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

/// Elements in a row that begins at the extent `axis`.
template <class Tensor>
constexpr std::ptrdiff_t row_width(int axis) {
  std::ptrdiff_t product = 1;
  for (int i = axis; i < Tensor::rank; ++i) product *= Tensor::extents[static_cast<std::size_t>(i)];
  return product;
}

/// Whether two tensors have the same type and extents, except for the extent `axis`.
template <class A, class B>
constexpr bool differ_only_in(int axis) {
  if (A::rank != B::rank || dtype_of<typename A::value_type> != dtype_of<typename B::value_type>) return false;
  if (axis < 0 || axis >= A::rank) return false;
  for (int i = 0; i < A::rank && i < B::rank; ++i)
    if (i != axis && A::extents[static_cast<std::size_t>(i)] != B::extents[static_cast<std::size_t>(i)]) return false;
  return true;
}

template <class Tensor, int Axis, int Extent, class Indices>
struct replaced_extent;
template <class T, int... N, int Axis, int Extent, int... Indices>
struct replaced_extent<tensor<T, N...>, Axis, Extent, std::integer_sequence<int, Indices...>> {
  using type = tensor<T, (Indices == Axis ? Extent : N)...>;
};

/// The same tensor type with another extent at `Axis`.
template <class Tensor, int Axis, int Extent>
using with_extent = typename replaced_extent<Tensor, Axis, Extent, std::make_integer_sequence<int, Tensor::rank>>::type;

}  // namespace gpipe::detail
