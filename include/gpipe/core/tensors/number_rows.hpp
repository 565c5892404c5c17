#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe {

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
