#pragma once

#include <array>
#include <cstddef>

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

}  // namespace detail

}  // namespace gpipe
