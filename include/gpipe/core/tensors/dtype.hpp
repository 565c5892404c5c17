#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/numbers/bf16.hpp>

namespace gpipe {

// assumes: half precision is bf16
/// The type of a tensor's elements, as a value.
enum class dtype : std::uint8_t { float32, float64, int32, uint8, bf16 };

namespace detail {

template <dtype Type>
struct element_named;
template <>
struct element_named<dtype::float32> {
  using type = float;
};
template <>
struct element_named<dtype::float64> {
  using type = double;
};
template <>
struct element_named<dtype::int32> {
  using type = std::int32_t;
};
template <>
struct element_named<dtype::uint8> {
  using type = std::uint8_t;
};
template <>
struct element_named<dtype::bf16> {
  using type = bf16;
};

/// The types that a tensor's elements can have. The list is closed; do not specialize it.
template <class T>
concept element = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::uint8_t> || std::is_same_v<T, bf16>;

}  // namespace detail

/// The `dtype` of an element type.
template <detail::element T>
inline constexpr dtype dtype_of = std::is_same_v<T, float>          ? dtype::float32
                                  : std::is_same_v<T, double>       ? dtype::float64
                                  : std::is_same_v<T, std::int32_t> ? dtype::int32
                                  : std::is_same_v<T, bf16>         ? dtype::bf16
                                                                    : dtype::uint8;

namespace detail {

/// The element type of a `dtype`.
template <dtype Type>
using element_of = typename detail::element_named<Type>::type;

}  // namespace detail

// assumes: one parameter type
/// The type in which elements are added and multiplied, and the type of a layer's parameters: float for bf16,
/// which is for storage only, else the type itself.
template <class T>
using compute_type = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

namespace detail {

/// Bytes of one element.
constexpr std::size_t bytes_of(dtype type) {
  return type == dtype::float64 ? 8 : type == dtype::uint8 ? 1 : type == dtype::bf16 ? 2 : 4;
}

template <element First, element... Others, class Call>
constexpr decltype(auto) visit_listed(dtype type, Call& call) {
  if constexpr (sizeof...(Others) > 0)
    if (type != dtype_of<First>) return visit_listed<Others...>(type, call);
  return call.template operator()<First>();
}

/// Calls `call.template operator()<T>()` with the element type of a `dtype`, and returns its result. If `Types` are
/// given, the type is one of these, and no code is made for others.
///
///     visit_dtype(type, [&]<class T>() { c.fill(n, T(1), reinterpret_cast<T*>(target)); });
///     visit_dtype<double, float>(net.type, [&]<class T>() { ... });
template <element... Types, class Call>
constexpr decltype(auto) visit_dtype(dtype type, Call&& call) {
  if constexpr (sizeof...(Types) > 0) return visit_listed<Types...>(type, call);
  else return visit_listed<float, double, std::int32_t, std::uint8_t, bf16>(type, call);
}

}  // namespace detail

/// The name of the type in errors and reports.
constexpr const char* name_of(dtype type) {
  switch (type) {
    case dtype::float32:
      return "float";
    case dtype::float64:
      return "double";
    case dtype::int32:
      return "int32";
    case dtype::uint8:
      return "uint8";
    case dtype::bf16:
      return "bf16";
  }
  return "?";
}

namespace detail {

/// Whether gradients can flow through elements of the type.
constexpr bool is_floating(dtype type) {
  return type == dtype::float32 || type == dtype::float64 || type == dtype::bf16;
}

}  // namespace detail

}  // namespace gpipe
