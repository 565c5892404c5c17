#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/record/file/file_operations.hpp>
#include <gpipe/tools/data/idx.hpp>

namespace gpipe {

namespace detail {

/// Bytes of an element of an IDX file; 0 for a type that does not exist.
inline std::size_t idx_bytes(int type) {
  constexpr std::size_t sizes[] = {1, 1, 0, 2, 4, 4, 8};  // types 8 to 14
  return type < 8 || type > 14 ? 0 : sizes[type - 8];
}

template <class Word>
Word big_endian(const std::byte* bytes) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i)
    word = static_cast<Word>(static_cast<Word>(word << 8) | static_cast<Word>(bytes[i]));
  return word;
}

}  // namespace detail

GPIPE_INLINE double idx_array::element(std::size_t i) const {
  const std::byte* bytes = elements_.data() + i * detail::idx_bytes(type_);
  switch (type_) {
    case 8:
      return std::to_integer<int>(*bytes);
    case 9:
      return static_cast<std::int8_t>(*bytes);
    case 11:
      return static_cast<std::int16_t>(detail::big_endian<std::uint16_t>(bytes));
    case 12:
      return static_cast<std::int32_t>(detail::big_endian<std::uint32_t>(bytes));
    case 13:
      return static_cast<double>(std::bit_cast<float>(detail::big_endian<std::uint32_t>(bytes)));
    default:
      return std::bit_cast<double>(detail::big_endian<std::uint64_t>(bytes));
  }
}

GPIPE_COLD GPIPE_INLINE void idx_array::require_whole(std::int32_t min, std::int32_t max) const {
  for (std::size_t i = 0; i < rows() * row(); ++i)
    if (const double x = element(i); !(x >= min && x <= max) || detail::is_nan(x) || x != std::trunc(x))
      detail::throw_error(
          {"element ", i, " is ", std::to_string(x), ", which is no whole number from ", min, " to ", max},
          {"read the array as<float>(), or give a file with such numbers"});
}

GPIPE_COLD GPIPE_INLINE idx_array read_idx(const std::string& path) {
  const auto fail = [&](const std::string& wrong, const std::string& remedy) {
    throw error(wrong, remedy, {.file = path});
  };
  const detail::open_file file(detail::system_files(), path, O_RDONLY | O_NONBLOCK);  // a pipe does not wait
  const std::uint64_t size = file.size();
  std::uint64_t next = 0;
  const auto read = [&](std::size_t bytes) {
    std::vector<std::byte> buffer(bytes);
    file.read_at(buffer.data(), bytes, next);
    next += bytes;
    return buffer;
  };
  if (size < 4) fail(detail::concat({"has ", size, " bytes, and no header"}), "give an IDX file");
  const auto magic = read(4);
  const auto magic_byte = [&](std::size_t i) { return std::to_integer<int>(magic[i]); };
  if (magic_byte(0) == 0x1f && magic_byte(1) == 0x8b) fail("is compressed by gzip", "unpack it by gunzip");
  if (magic_byte(0) != 0 || magic_byte(1) != 0) fail("does not begin with two bytes of 0", "give an IDX file");
  const std::size_t element = detail::idx_bytes(magic_byte(2));
  if (element == 0)
    fail(detail::concat({"has elements of the unknown type ", magic_byte(2)}),
         "give one of the types 8, 9, 11, 12, 13, 14");
  const auto dimensions = static_cast<std::size_t>(magic_byte(3));
  if (dimensions == 0) fail("has 0 dimensions", "give an array with at least 1");
  if (size < 4 + 4 * dimensions)
    fail(detail::concat({"ends in its header, which has ", dimensions, " extents"}), "give a whole file");
  const auto header = read(4 * dimensions);
  // Nothing is allocated before the file's size has confirmed the header.
  const std::uint64_t given = size - 4 - 4 * dimensions;
  std::vector<std::size_t> extents;
  std::uint64_t bytes = element;
  for (std::size_t d = 0; d < dimensions; ++d) {
    extents.push_back(detail::big_endian<std::uint32_t>(header.data() + 4 * d));
    if (extents.back() == 0) fail(detail::concat({"extent ", d, " is 0"}), "give an array with elements");
    const std::uint64_t max = (std::numeric_limits<std::uint64_t>::max)() / extents.back();
    bytes = bytes > max ? (std::numeric_limits<std::uint64_t>::max)() : bytes * extents.back();
  }
  if (bytes != given)
    fail(detail::concat({"has ", given, " bytes of elements, but its header says ", bytes}), "give a whole file");
  return {magic_byte(2), std::move(extents), read(static_cast<std::size_t>(given))};
}

}  // namespace gpipe
