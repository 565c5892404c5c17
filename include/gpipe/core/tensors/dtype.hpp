#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include <gpipe/core/config.hpp>

namespace gpipe {

// assumes: half precision is bf16
/// A number of 16 bits with a float's range, the upper half of a float: 8 bits of exponent and 7 of fraction (Dean et
/// al., 2012). It is for storage, not arithmetic: it converts to float exactly. A float converts to the nearest bf16,
/// ties to even; NaN stays NaN, and a value that rounds beyond the largest bf16 becomes infinite. It has the memory
/// layout of CUDA's __nv_bfloat16.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  // Integer operations without a branch, so that loops vectorize well. `nan` is all ones for a NaN. A NaN is made quiet
  // and not rounded, because the upper bits of its fraction may be zeros.
  GPIPE_HOST_DEVICE constexpr bf16(float x) : bits(0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (!__builtin_is_constant_evaluated()) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
      return;
    }
#endif
    const auto float_bits = __builtin_bit_cast(std::uint32_t, x);
    const auto nan =
        static_cast<std::uint32_t>((0x7f800000 - static_cast<std::int32_t>(float_bits & 0x7fffffffU)) >> 31);
    const std::uint32_t half = 0x7fffU + (float_bits >> 16 & 1U);
    bits = static_cast<std::uint16_t>(((float_bits + (half & ~nan)) | (0x400000U & nan)) >> 16);
  }
  GPIPE_HOST_DEVICE constexpr operator float() const { return __builtin_bit_cast(float, std::uint32_t{bits} << 16); }
};

// assumes: half precision is bf16
// change: an element type
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

/// The element type of a `dtype`.
template <dtype Type>
using element_of = typename element_named<Type>::type;

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

// assumes: one parameter type
/// The type in which elements are added and multiplied, and the type of a layer's parameters: float for bf16,
/// which is for storage only, else the type itself.
template <class T>
using compute_type = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

namespace detail {

/// Whether gradients can flow through elements of the type.
constexpr bool is_floating(dtype type) {
  return type == dtype::float32 || type == dtype::float64 || type == dtype::bf16;
}

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

namespace broken {

template <class Rows, bool Holds>
struct rows_are_an_array {
  static_assert(Holds,
                "gpipe: the rows of a field, or the values of a parameter, are one array of numbers: give a "
                "std::vector, std::array, std::span or a built-in array");
};
template <class Element, bool Holds>
struct rows_have_an_element_type {
  static_assert(Holds,
                "gpipe: numbers are float, double, std::int32_t, std::uint8_t or gpipe::bf16: convert an array of "
                "another type, such as int64 labels, by std::vector<std::int32_t>(it.begin(), it.end())");
};

}  // namespace broken

namespace detail {

// assumes: half precision is bf16
/// An array of numbers without its type.
struct number_rows {
  const void* data = nullptr;
  std::size_t elements = 0;
  dtype type{};
};

/// Any contiguous array of numbers: a vector, a span, an array. Another type is one error of the compiler.
template <class Rows>
number_rows number_rows_of(const Rows& rows) {
  if constexpr (requires {
                  *std::data(rows);
                  std::size(rows);
                }) {
    using number = std::remove_cvref_t<decltype(*std::data(rows))>;
    if constexpr (element<number>) return {std::data(rows), std::size(rows), dtype_of<number>};
    else return static_cast<void>(sizeof(broken::rows_have_an_element_type<number, false>)), number_rows{};
  } else {
    return static_cast<void>(sizeof(broken::rows_are_an_array<Rows, false>)), number_rows{};
  }
}

}  // namespace detail

}  // namespace gpipe
