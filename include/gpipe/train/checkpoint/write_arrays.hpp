#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/record/checkpoint/write_safetensors.hpp>
#include <gpipe/train/checkpoint/checkpoint_files.hpp>

namespace gpipe::detail {

/// Copies bytes of an array, from its byte `at` on.
using array_reader = std::function<void(const stored_array& of, std::size_t at, std::span<std::byte> into)>;

/// Reads an array in blocks, and writes them.
class array_source {
 public:
  array_source(const checkpoint_file& file, const array_reader& read) : read_(read), block_(block_bytes) {
    for (const stored_array& one : file.arrays) arrays_.emplace(one.name, &one);
  }
  void operator()(const safetensors_entry& tensor, safetensors_sink& into) {
    const stored_array& from = *arrays_.at(tensor.name);
    for (std::size_t at = 0, all = from.bytes(); at < all; at += block_bytes) {
      const std::span block = std::span(block_).first((std::min)(block_bytes, all - at));
      read_(from, at, block);
      into.write(std::span<const std::byte>(block));
    }
  }
  /// Reads all tensors in the order in which a file has them, and writes none: for a process that only takes part.
  void read_all(const safetensors_header& header) {
    for (const safetensors_entry& e : header.entries) {
      const stored_array& from = *arrays_.at(e.name);
      for (std::size_t at = 0, all = from.bytes(); at < all; at += block_bytes)
        read_(from, at, std::span(block_).first((std::min)(block_bytes, all - at)));
    }
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  const array_reader& read_;
  std::map<std::string_view, const stored_array*> arrays_;
  std::vector<std::byte> block_;
};

/// Writes the files of a list that are this rank's, each whole and on the disk. `facts` stand in the first file.
void write_arrays(const std::string& folder, const file_list& list, int rank, const safetensors_metadata& facts,
                  const array_reader& read, file_operations& files);

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE void write_arrays(const std::string& folder, const file_list& list, int rank,
                                          const safetensors_metadata& facts, const array_reader& read,
                                          file_operations& files) {
  for (const checkpoint_file& file : list.files) {
    if (file.rank != rank) continue;
    array_source source(file, read);
    write_safetensors_directly(
        folder + '/' + file.name, tensors_of(file), &file == &list.files.front() ? facts : safetensors_metadata{},
        [&](const safetensors_entry& e, safetensors_sink& into) { source(e, into); }, files);
  }
}
#endif

}  // namespace gpipe::detail
