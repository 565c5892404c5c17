#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/checkpoint/element_type.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>

// A safetensors file:
//
//     8 bytes       N bytes                                   the tensors, one after the other
//     N, little-    {"__metadata__":{"k":"text"},             ┌─────────┬───────┬──────┐
//     endian        "w":{"dtype":"F32","shape":[2,3],         │ w       │ b     │ ...  │
//                   "data_offsets":[0,24]}, ...}   padding    └─────────┴───────┴──────┘
//                                                             0         24      36

namespace gpipe {

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
  std::uint64_t elements() const;
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

/// N and the N bytes of the header, from the first bytes of a file of `file_size` bytes.
safetensors_header parse_file(std::span<const std::byte> begin, std::uint64_t file_size, const std::string& file);

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
