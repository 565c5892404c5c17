#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe {

// assumes: static shapes
/// The shape of one *sample*, as a type: `tensor<float, 3, 32, 32>`; `tensor<float>` is one number per sample.
/// The batch extent is not part of the type: it is the plan's micro-batch size.
template <detail::element T, int... N>
struct tensor {
  static_assert(((N > 0) && ...), "gpipe: a tensor's extents must be at least 1");

  using value_type = T;
  static constexpr int rank = sizeof...(N);
  static constexpr std::array<int, sizeof...(N)> extents{N...};
  static constexpr std::size_t size = (std::size_t{1} * ... * static_cast<std::size_t>(N));  ///< elements per sample
};

/// Several tensors on one edge, in a fixed order.
template <class... Tensors>
struct bundle {};

/// The maximum number of tensors on an edge, and of a layer's inputs or outputs.
inline constexpr int max_tensors_per_edge = 4;

namespace detail {

/// Whether a type is a `tensor`, or a `feature_map`, which is one with another order in memory.
template <class>
inline constexpr bool is_tensor = false;
template <class T, int... N>
inline constexpr bool is_tensor<tensor<T, N...>> = true;

/// Whether a type is a `bundle` of tensors.
template <class>
inline constexpr bool is_bundle = false;
template <class... Tensors>
inline constexpr bool is_bundle<bundle<Tensors...>> = (is_tensor<Tensors> && ...);

/// A tensor of floating-point numbers.
template <class T>
concept floating_tensor = is_tensor<T> && is_floating(dtype_of<typename T::value_type>);

/// The types that can flow between layers.
template <class T>
concept edge = is_tensor<T> || is_bundle<T>;

template <class Edge>
struct edge_parts;  // the tensors of an edge, as a bundle
template <class Tensor>
requires is_tensor<Tensor>
struct edge_parts<Tensor> {
  using type = bundle<Tensor>;
};
template <class... Tensors>
struct edge_parts<bundle<Tensors...>> {
  using type = bundle<Tensors...>;
};

template <int Index, class Bundle>
struct part_of;
template <int Index, class First, class... Rest>
struct part_of<Index, bundle<First, Rest...>> : part_of<Index - 1, bundle<Rest...>> {};
template <class First, class... Rest>
struct part_of<0, bundle<First, Rest...>> {
  using type = First;
};

template <class Bundle>
inline constexpr int parts_in = 0;
template <class... Tensors>
inline constexpr int parts_in<bundle<Tensors...>> = static_cast<int>(sizeof...(Tensors));

// Whether all extents are at least 1. A model checks it first, because a tensor's own assertion cannot name the layer.
template <class Edge>
inline constexpr bool has_extents = true;
template <class T, int... N>
inline constexpr bool has_extents<tensor<T, N...>> = ((N > 0) && ...);
template <class... Tensors>
inline constexpr bool has_extents<bundle<Tensors...>> = (has_extents<Tensors> && ...);

template <class Tensor, class To>
struct converted;
template <class T, int... N, class To>
struct converted<tensor<T, N...>, To> {
  using type = tensor<To, N...>;
};

/// The tensor with elements of another type.
template <class Tensor, class To>
using with_element = typename detail::converted<Tensor, To>::type;

/// The number of tensors on an edge: 1 for a tensor.
template <edge Edge>
inline constexpr int parts = detail::parts_in<typename detail::edge_parts<Edge>::type>;

/// The `Index`-th tensor of an edge.
template <edge Edge, int Index>
using part = typename detail::part_of<Index, typename detail::edge_parts<Edge>::type>::type;

/// A tensor's extents as a value, at most `max_rank` of them, without a batch extent: for example a parameter's shape.
struct shape {
  static constexpr int max_rank = 6;

  int rank = 0;
  int extents[max_rank]{};

  constexpr shape() = default;
  constexpr shape(std::initializer_list<int> list) {
    for (const int extent : list) extents[rank++] = extent;
  }
  template <std::size_t Rank>
  constexpr explicit shape(const std::array<int, Rank>& list) {
    static_assert(Rank <= max_rank, "gpipe: a shape has at most 6 extents");
    for (std::size_t i = 0; i < Rank; ++i) extents[rank++] = list[i];
  }

  constexpr std::size_t size() const {
    std::size_t product = 1;
    for (int i = 0; i < rank; ++i) product *= static_cast<std::size_t>(extents[i]);
    return product;
  }
  friend constexpr bool operator==(const shape&, const shape&) = default;
};

}  // namespace detail

/// The shape of one image or map of features, as a type: `feature_map<float, 3, 224, 224>` has C = 3 channels and H x
/// W pixels. In memory the channels of a pixel are neighbours ("channels-last"), because convolutions and poolings are
/// fastest so:
///
///     element (c, y, x) is at (y W + x) C + c
///
///     | c 0 1 2 | 0 1 2 | 0 1 2 |  row 0, pixels 0, 1, 2
///     | c 0 1 2 | 0 1 2 | 0 1 2 |  row 1
///
/// Functions of each element take it as they take a tensor. Others do not: `flatten` turns it into a row.
template <detail::element T, int C, int H, int W>
struct feature_map {
  static_assert(C > 0 && H > 0 && W > 0, "gpipe: a feature map's extents must be at least 1");

  using value_type = T;
  static constexpr int channels = C, height = H, width = W, rank = 3;
  static constexpr std::array<int, 3> extents{C, H, W};
  static constexpr std::size_t pixels = static_cast<std::size_t>(H) * static_cast<std::size_t>(W);
  static constexpr std::size_t size = pixels * static_cast<std::size_t>(C);  ///< elements per sample
};

namespace detail {

template <class>
inline constexpr bool is_feature_map = false;
template <class T, int C, int H, int W>
inline constexpr bool is_feature_map<feature_map<T, C, H, W>> = true;

template <class T, int C, int H, int W>
inline constexpr bool is_tensor<feature_map<T, C, H, W>> = true;

template <class T, int C, int H, int W>
inline constexpr bool has_extents<feature_map<T, C, H, W>> = C > 0 && H > 0 && W > 0;

template <class T, int C, int H, int W, class To>
struct converted<feature_map<T, C, H, W>, To> {
  using type = feature_map<To, C, H, W>;
};

/// A feature map of floating-point numbers, the input of convolutions and poolings.
template <class T>
concept floating_map = is_feature_map<T> && floating_tensor<T>;

}  // namespace detail

/// Samples of shape `N...`, one after the other, indexed as an array. A view owns no memory and can be copied into a
/// kernel's functor.
///
///     view<const float, 128, 64> x{a.in()};
///     x(sample, token, feature)
template <class T, int... N>
struct view {
  T* data = nullptr;

  template <class... Index>
  GPIPE_HOST_DEVICE constexpr T& operator()(std::ptrdiff_t sample, Index... index) const {
    static_assert(sizeof...(Index) == sizeof...(N), "gpipe: a view needs the sample and one index per extent");
    std::ptrdiff_t offset = sample;
    ((offset = offset * N + static_cast<std::ptrdiff_t>(index)), ...);
    return data[offset];
  }
};

}  // namespace gpipe
