#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/record/checkpoint/element_type.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe {

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

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/safetensors_file-inl.hpp>
#endif
