#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/checkpoint/index.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>

namespace gpipe {

/// The tensors of one safetensors file, or of all files of an index (a path that ends with `.json`). The index must
/// name exactly the tensors of its files.
class safetensors_set {
 public:
  /// A tensor, and the file that has it.
  struct tensor_location {
    const safetensors_file* file;
    const safetensors_entry* entry;

    /// Reads elements, beginning at element `first`: see `safetensors_file::read`.
    template <class T>
    void read(std::uint64_t first, std::span<T> target) const {
      file->read(*entry, first, target);
    }
  };

  explicit safetensors_set(const std::string& path, detail::file_operations& files = detail::system_files());

  /// The opened path, of the file or the index.
  const std::string& path() const { return path_; }
  /// All tensors, sorted by name.
  const std::map<std::string_view, tensor_location>& tensors() const { return tensors_; }
  /// Null if no file has such a tensor.
  const tensor_location* find(std::string_view name) const;
  /// The files, sorted by name, each with metadata.
  const std::deque<safetensors_file>& files() const { return files_; }
  /// The metadata of the first file.
  const safetensors_metadata& metadata() const;

 private:
  std::string path_;
  std::deque<safetensors_file> files_;
  std::map<std::string_view, tensor_location> tensors_;
};

namespace detail {

/// The set `stem` of a folder: `stem.safetensors`, or `stem.safetensors.index.json` and its files.
safetensors_set open_set(const std::string& folder, const std::string& stem, file_operations& files);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/checkpoint/safetensors_set-inl.hpp>
#endif
