#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe {

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

/// A safetensors file, opened to read. Its header is checked as strictly as by the format's reference, and the names of
/// tensors must be unique. `read` reads from the file and may be called by any thread.
///
///     safetensors_file file("model.safetensors");
///     std::vector<float> weight(file.at("0.weight").elements());
///     file.read(file.at("0.weight"), 0, std::span(weight));
class safetensors_file {
 public:
  explicit safetensors_file(std::string path, detail::file_operations& files = detail::system_files());

  const std::string& path() const { return file_.path(); }
  /// In the order of their bytes.
  const std::deque<safetensors_entry>& entries() const { return header_.entries; }
  const safetensors_metadata& metadata() const { return header_.metadata; }
  /// Null if the file has no such tensor.
  const safetensors_entry* find(std::string_view name) const { return header_.find(name); }
  /// Throws if the file has no such tensor.
  const safetensors_entry& at(std::string_view name) const;

  /// Reads bytes of a tensor, beginning at its byte `first`.
  void read_bytes(const safetensors_entry& tensor, std::uint64_t first, std::span<std::byte> target) const;
  /// Reads elements of a tensor, beginning at its element `first`. F16, BF16, F32 and F64 convert to the nearest value,
  /// ties to even; other types are an error.
  void read(const safetensors_entry& tensor, std::uint64_t first, std::span<float> target) const;
  void read(const safetensors_entry& tensor, std::uint64_t first, std::span<double> target) const;
  void read(const safetensors_entry& tensor, std::uint64_t first, std::span<bf16> target) const;

 private:
  template <class T>
  void read_converted(const safetensors_entry& tensor, std::uint64_t first, std::span<T> target) const;

  detail::open_file file_;
  detail::safetensors_header header_;
  std::uint64_t data_ = 0;  // the offset of the tensors
};

/// Takes the bytes of a tensor, in any number of pieces.
class safetensors_sink {
 public:
  void write(std::span<const std::byte> bytes) { append(bytes.data(), bytes.size()); }
  template <class T>
  void write(std::span<const T> elements) {
    write(std::as_bytes(elements));
  }

  // For the library.
  safetensors_sink(detail::open_file& file, std::uint64_t bytes_of_file);
  void append(const void* data, std::size_t bytes);
  GPIPE_COLD void flush() {
    if (!block_.empty()) file_->write(block_.data(), block_.size());
    block_.clear();
  }
  std::uint64_t written() const { return written_; }

 private:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  detail::open_file* file_;
  std::vector<char> block_{};  // bytes that are not yet written
  std::uint64_t written_ = 0;
};

/// Writes the bytes of one tensor. It is called for each tensor, in the order of the file.
using safetensors_source = std::function<void(const safetensors_entry& tensor, safetensors_sink& sink)>;

/// Writes a safetensors file. Its bytes depend on the arguments alone, and equal the bytes of the format's reference.
/// They are written to `.NAME.part` in the same folder and to the disk before the file gets its name: after any
/// failure, `path` is the old file or the new one.
void write_safetensors(const std::string& path, std::vector<safetensors_tensor> tensors, safetensors_metadata metadata,
                       const safetensors_source& source, detail::file_operations& files = detail::system_files());

namespace detail {

/// The same directly under the name, for a folder that gets its name later; the bytes are on the disk afterwards.
void write_safetensors_directly(const std::string& path, std::vector<safetensors_tensor> tensors,
                                safetensors_metadata metadata, const safetensors_source& source,
                                file_operations& files);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/safetensors_file-inl.hpp>
#endif
