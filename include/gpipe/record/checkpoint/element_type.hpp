#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <gpipe/core/config.hpp>

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

}  // namespace gpipe
