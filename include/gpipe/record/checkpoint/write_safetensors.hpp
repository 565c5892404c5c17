#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe {

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
  void flush();
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
#include <gpipe/record/checkpoint/write_safetensors-inl.hpp>
#endif
