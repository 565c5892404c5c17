#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/text/quoted.hpp>

namespace gpipe {

/// The element types of a safetensors file, in the order of the format's reference. A file stores the tensors of later
/// types first.
enum class safetensors_type : std::uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64
};

namespace detail {

struct safetensors_type_line {
  std::string_view name;
  unsigned bits;
};

inline constexpr std::array<safetensors_type_line, 22> safetensors_types{
    {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
     {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
     {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
     {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}};

/// The bits of an element: types of 4 and 6 bits are packed.
constexpr unsigned bits_of(safetensors_type type) { return safetensors_types[static_cast<std::size_t>(type)].bits; }

/// The type with this name; names are in capitals.
constexpr std::optional<safetensors_type> safetensors_type_named(std::string_view name) {
  for (std::size_t i = 0; i < safetensors_types.size(); ++i)
    if (safetensors_types[i].name == name) return static_cast<safetensors_type>(i);
  return std::nullopt;
}

}  // namespace detail

/// The name of the type in a file.
constexpr std::string_view name_of(safetensors_type type) {
  return detail::safetensors_types[static_cast<std::size_t>(type)].name;
}

namespace detail {

static_assert(std::endian::native == std::endian::little,
              "a safetensors file is little-endian, and so must the machine be");

/// The value of 16 bits of IEEE 754: 5 of exponent, 10 of fraction. A float represents every value.
constexpr float half_value(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16, fraction = bits & 0x3ffU, exponent = bits >> 10 & 31U;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent == 31 ? 255U : exponent + 112) << 23 | fraction << 13);
}

// assumes: half precision is bf16
/// The nearest bf16, ties to even. Via a float, a double could be rounded twice: therefore that float is rounded to
/// odd, so that its last bit is 1 whenever it is not exact (Boldo and Melquiond, 2008).
constexpr bf16 nearest_bf16(double x) {
  const auto nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return bf16(nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double magnitude = x < 0 ? -x : x;
  const double rounded = static_cast<double>(std::bit_cast<float>(bits & 0x7fffffffU));
  if (rounded > magnitude) --bits;  // towards zero
  return bf16(std::bit_cast<float>(bits | 1U));
}

/// The nearest value of another type, ties to even.
template <class To, class From>
constexpr To nearest(From x) {
  if constexpr (std::same_as<To, bf16> && std::same_as<From, double>) return nearest_bf16(x);
  else if constexpr (std::same_as<To, From>) return x;
  else if constexpr (std::same_as<From, bf16>) return static_cast<To>(static_cast<float>(x));
  else return static_cast<To>(x);
}

/// Throws unless elements of the type can be converted.
GPIPE_COLD inline void require_convertible(safetensors_type type, const std::string& name, const std::string& file) {
  using enum safetensors_type;
  if (type != F16 && type != BF16 && type != F32 && type != F64)
    throw_error({"tensor ", detail::quoted(name), " has elements of ", name_of(type), ", which do not convert"},
                {"store it as F16, BF16, F32 or F64, or read its bytes"}, {.file = file});
}

template <class To, class From>
void convert_from(const std::byte* source, std::size_t count, To* target) {
  for (std::size_t i = 0; i < count; ++i) {
    From x;
    std::memcpy(&x, source + i * sizeof x, sizeof x);
    if constexpr (std::same_as<From, std::uint16_t>) target[i] = nearest<To>(half_value(x));
    else target[i] = nearest<To>(x);
  }
}

/// Converts `count` elements of a file. Throws unless the type is F16, BF16, F32 or F64.
template <class To>
requires std::same_as<To, float> || std::same_as<To, double> || std::same_as<To, bf16>
void convert(safetensors_type type, const std::byte* source, std::size_t count, To* target, const std::string& name,
             const std::string& file) {
  require_convertible(type, name, file);
  if (type == safetensors_type::F16) convert_from<To, std::uint16_t>(source, count, target);
  else if (type == safetensors_type::BF16) convert_from<To, bf16>(source, count, target);
  else if (type == safetensors_type::F32) convert_from<To, float>(source, count, target);
  else convert_from<To, double>(source, count, target);
}

/// The type in a file of elements of T.
template <class T>
inline constexpr safetensors_type safetensors_type_of = std::same_as<T, double> ? safetensors_type::F64
                                                        : std::same_as<T, bf16> ? safetensors_type::BF16
                                                                                : safetensors_type::F32;

}  // namespace detail

}  // namespace gpipe
