#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpipe {

/// The type of a tensor's elements, as a value.
enum class dtype : std::uint8_t { float32, float64, int32, uint8 };

/// Whether a type can be a tensor's element; specialise nothing here, the list is closed.
template <class T>
concept element = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> ||
                  std::is_same_v<T, std::uint8_t>;

/// The `dtype` of an element type.
template <element T>
inline constexpr dtype dtype_of = std::is_same_v<T, float>          ? dtype::float32
                                  : std::is_same_v<T, double>       ? dtype::float64
                                  : std::is_same_v<T, std::int32_t> ? dtype::int32
                                                                    : dtype::uint8;

/// Bytes of one element.
constexpr std::size_t bytes_of(dtype type) {
  return type == dtype::float64 ? 8 : type == dtype::uint8 ? 1 : 4;
}

/// The name users know the type by.
constexpr const char* name_of(dtype type) {
  switch (type) {
    case dtype::float32: return "float";
    case dtype::float64: return "double";
    case dtype::int32: return "int32";
    case dtype::uint8: return "uint8";
  }
  return "?";
}

/// Gradients flow through floating-point values only.
constexpr bool is_floating(dtype type) { return type == dtype::float32 || type == dtype::float64; }

}  // namespace gpipe
