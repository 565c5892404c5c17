#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>

// A safetensors file:
//
//     8 bytes       N bytes                                   the tensors, one after the other
//     N, little-    {"__metadata__":{"k":"text"},             ┌─────────┬───────┬──────┐
//     endian        "w":{"dtype":"F32","shape":[2,3],         │ w       │ b     │ ...  │
//                   "data_offsets":[0,24]}, ...}   padding    └─────────┴───────┴──────┘
//                                                             0         24      36

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

/// A tensor of a file, without its elements.
struct safetensors_tensor {
  std::string name;
  safetensors_type type = safetensors_type::F32;
  std::vector<std::uint64_t> shape{};  ///< row-major; empty for a scalar
};

/// A tensor in a file, at bytes [begin, end) after the header.
struct safetensors_entry : safetensors_tensor {
  std::uint64_t begin = 0, end = 0;

  std::uint64_t bytes() const { return end - begin; }
  GPIPE_COLD std::uint64_t elements() const {
    std::uint64_t product = 1;
    for (const std::uint64_t extent : shape) product *= extent;
    return product;
  }
};

/// Texts in addition to the tensors.
using safetensors_metadata = std::map<std::string, std::string>;

namespace detail {

/// Limits of the format's reference.
inline constexpr std::uint64_t max_header = 100'000'000;
/// No library has tensors of more dimensions.
inline constexpr std::size_t max_dimensions = 64;

/// The bytes of a tensor. Throws if the number has more than 64 bits, or is not an integer.
std::uint64_t bytes_of(const safetensors_tensor& tensor, const std::string& file);

/// The header of a file: entries in the order of their bytes, without gaps.
struct safetensors_header {
  std::deque<safetensors_entry> entries{};  // a deque: no allocation is larger than the header
  std::vector<std::uint32_t> by_name{};     // positions in `entries`, sorted by name
  safetensors_metadata metadata{};

  const safetensors_entry* find(std::string_view name) const;
  std::uint64_t bytes() const { return entries.empty() ? 0 : entries.back().end; }
};

/// Reads and checks the N bytes of a header, after which the file has `data_bytes` bytes.
safetensors_header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file);

/// The number N in the first 8 bytes of a file; throws if the file cannot have a header of N bytes.
std::uint64_t header_length(std::span<const std::byte> begin, std::uint64_t file_size, const std::string& file);

/// Places the tensors in a file as the format's reference does: later types first, then by name.
safetensors_header place_tensors(std::vector<safetensors_tensor> tensors, safetensors_metadata metadata,
                                 const std::string& file);

/// The bytes before the tensors: N, the header, and spaces up to a multiple of 8.
std::string header_bytes(const safetensors_header& header, const std::string& file);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/header-inl.hpp>
#endif
