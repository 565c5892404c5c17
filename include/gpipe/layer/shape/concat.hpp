#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

namespace detail {

/// A tensor cut along one extent into slices, each with separate memory, which `concat` and `split` copy. A row
/// contains that extent with all later ones; a row of the whole is the slices' rows, one after the other.
///
///     whole  | row 0: slice 0, slice 1 | row 1: slice 0, slice 1 | ...
///     parts  | row 0 | row 1 | ...   and   | row 0 | row 1 | ...
template <class T, int Count>
struct tensor_slices {
  std::ptrdiff_t width[std::size_t{Count}]{};  ///< elements in a slice's row
  T* part[std::size_t{Count}]{};               ///< null: the slice is left out
};

/// Copies the slices into the whole tensor.
template <class T, int Count>
struct join_rows {
  tensor_slices<const T, Count> parts;
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
  tensor_slices<T, Count> parts;
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

/// The sizes of `concat` and `split`.
template <int Count>
struct slice_sizes {
  std::ptrdiff_t rows;  ///< of a sample
  std::ptrdiff_t widths[std::size_t{Count}];

  constexpr std::ptrdiff_t width() const {
    std::ptrdiff_t sum = 0;
    for (const std::ptrdiff_t slice_width : widths) sum += slice_width;
    return sum;
  }
  /// The slices whose memory is part(0), part(1), ...
  template <class T, class F>
  tensor_slices<T, Count> with(F part) const {
    return [&]<int... Indices>(std::integer_sequence<int, Indices...>) {
      return tensor_slices<T, Count>{{widths[Indices]...}, {part(std::integral_constant<int, Indices>{})...}};
    }
    (std::make_integer_sequence<int, Count>{});
  }
};

/// Kernels of `concat` for `Count` inputs: a row of the output consists of a row of each.
template <class T, int Count>
struct join_kernels {
  using value_type = T;
  using numbers = slice_sizes<Count>;

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const auto inputs = a.sizes().template with<const T>([&](auto i) { return a.template in<i>(); });
    c.rows(a.samples() * a.sizes().rows, join_rows<T, Count>{inputs, a.out(), a.sizes().width()});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const auto gradients = a.sizes().template with<T>([&](auto i) { return a.template in_gradient<i>(); });
    c.rows(a.samples() * a.sizes().rows, cut_rows<T, Count>{a.out_gradient(), gradients, a.sizes().width()});
  }
};

/// Kernels of `split` for `Count` outputs.
template <class T, int Count>
struct cut_kernels {
  using value_type = T;
  using numbers = slice_sizes<Count>;

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const auto outputs = a.sizes().template with<T>([&](auto i) { return a.template out<i>(); });
    c.rows(a.samples() * a.sizes().rows, cut_rows<T, Count>{a.in(), outputs, a.sizes().width()});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (!a.in_gradient()) return;
    const auto gradients = a.sizes().template with<const T>([&](auto i) { return a.template out_gradient<i>(); });
    c.rows(a.samples() * a.sizes().rows, join_rows<T, Count>{gradients, a.in_gradient(), a.sizes().width()});
  }
};

/// The declarations of `concat`, for inputs with rows of `Widths`.
template <class On, class T, std::ptrdiff_t Rows, std::ptrdiff_t... Widths>
struct joined_rows : of_kind<On, join_kernels<T, static_cast<int>(sizeof...(Widths))>> {
  static constexpr typename joined_rows::numbers sizes{Rows, {Widths...}};
  static constexpr work cost{.bytes = static_cast<std::int64_t>(2 * sizeof(T)) * Rows * sizes.width()};
};

/// Whether a tensor is a feature map that differs from another one in its channels at most.
template <class Map, class Other>
inline constexpr bool equal_but_channels = false;
template <class T, int C, int Others, int H, int W>
inline constexpr bool equal_but_channels<feature_map<T, C, H, W>, feature_map<T, Others, H, W>> = true;

}  // namespace detail

/// Joins the tensors of its input along one extent: `concat<>` along the last, `concat<0>` along the first. The other
/// extents must be equal. Feature maps are joined along their channels, by `concat<>` or `concat<0>`.
///
///     tensor<float, 8, 3>, tensor<float, 8, 5>:  concat<> gives tensor<float, 8, 8>
///     feature_map<float, 8, 4, 4>, feature_map<float, 3, 4, 4>:  concat<> gives feature_map<float, 11, 4, 4>
template <int Axis = -1>
struct concat {
  template <class In>
  struct on;

  template <class First, class... Rest>
  requires((detail::differ_only_in<First, Rest>(detail::axis_of(Axis, First::rank)) && ...) && sizeof...(Rest) > 0 &&
           detail::floating_tensor<First> && !detail::is_feature_map<First> &&
           (!detail::is_feature_map<Rest> && ...)) struct on<bundle<First, Rest...>>
      : detail::joined_rows<on<bundle<First, Rest...>>, typename First::value_type,
                            static_cast<std::ptrdiff_t>(First::size) /
                                detail::row_width<First>(detail::axis_of(Axis, First::rank)),
                            detail::row_width<First>(detail::axis_of(Axis, First::rank)),
                            detail::row_width<Rest>(detail::axis_of(Axis, First::rank))...> {
    static constexpr int axis = detail::axis_of(Axis, First::rank);
    static constexpr auto axis_index = static_cast<std::size_t>(axis);
    using output = detail::with_extent<First, axis, (First::extents[axis_index] + ... + Rest::extents[axis_index])>;
  };

  template <detail::floating_map First, class... Rest>
  requires((detail::equal_but_channels<First, Rest> && ...) && sizeof...(Rest) > 0 &&
           (Axis == -1 || Axis == 0)) struct on<bundle<First, Rest...>>
      : detail::joined_rows<on<bundle<First, Rest...>>, typename First::value_type,
                            static_cast<std::ptrdiff_t>(First::pixels), First::channels, Rest::channels...> {
    using output =
        feature_map<typename First::value_type, (First::channels + ... + Rest::channels), First::height, First::width>;
  };
};

}  // namespace gpipe
