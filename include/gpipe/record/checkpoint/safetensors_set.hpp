#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/record/checkpoint/json_reader.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>

namespace gpipe {

/// The file of each tensor of several safetensors files, as in Hugging Face's `model.safetensors.index.json`:
///
///     {
///       "metadata": {
///         "total_size": 1048576
///       },
///       "weight_map": {
///         "0.weight": "model-00001-of-00002.safetensors",
///         "1.weight": "model-00002-of-00002.safetensors"
///       }
///     }
struct safetensors_index {
  std::map<std::string, std::string, std::less<>> file_of{};  ///< the file's name, in the folder of the index
  std::optional<std::uint64_t> total_size{};                  ///< bytes of all tensors
};

/// Writes an index: the bytes depend on the index alone. They are written to the disk before the file gets its name.
void write_safetensors_index(const std::string& path, const safetensors_index& index,
                             detail::file_operations& files = detail::system_files());

namespace detail {

/// Reads an index. A name or a field that occurs twice, or a file outside the folder, is an error; fields that are not
/// listed above are skipped.
safetensors_index parse_index(std::string_view text, const std::string& file);

std::string index_text(const safetensors_index& index, const std::string& file);

void write_safetensors_index_directly(const std::string& path, const safetensors_index& index, file_operations& files);

/// `model-00002-of-00004.safetensors`: shard 2 of 4, counted from 1.
std::string shard_name(std::string_view stem, int shard, int shards);

}  // namespace detail

// change: a checkpoint file format
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
  GPIPE_COLD const tensor_location* find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  /// The files, sorted by name, each with metadata.
  const std::deque<safetensors_file>& files() const { return files_; }
  /// The metadata of the first file.
  GPIPE_COLD const safetensors_metadata& metadata() const {
    static const safetensors_metadata none;
    return files_.empty() ? none : files_.front().metadata();
  }

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
