#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/checkpoint/write_safetensors.hpp>
#include <gpipe/train/checkpoint/checkpoint_files.hpp>
#include <gpipe/train/checkpoint/names/transpose.hpp>

namespace gpipe::detail {

/// Copies bytes of an array, from its byte `at` on.
using array_reader = std::function<void(const stored_array& of, std::size_t at, std::span<std::byte> into)>;

/// Reads an array in blocks, and writes them. An array whose elements have another order in the file
/// is read as a whole before.
class array_source {
 public:
  array_source(const checkpoint_file& file, const array_reader& read) : read_(read), block_(block_bytes) {
    for (const stored_array& one : file.arrays) arrays_.emplace(one.name, &one);
  }
  void operator()(const safetensors_entry& tensor, safetensors_sink& into) {
    const stored_array& from = *arrays_.at(tensor.name);
    if (!from.order.same()) return write_in_order(from, into);
    for (std::size_t at = 0, all = from.location.bytes; at < all; at += block_bytes) {
      const std::span block = std::span(block_).first((std::min)(block_bytes, all - at));
      read_(from, at, block);
      into.write(std::span<const std::byte>(block));
    }
  }
  /// Reads all tensors in the order in which a file has them, and writes none: for a process that only takes part.
  void read_all(const safetensors_header& header) {
    for (const safetensors_entry& e : header.entries) {
      const stored_array& from = *arrays_.at(e.name);
      for (std::size_t at = 0, all = from.location.bytes; at < all; at += block_bytes)
        read_(from, at, std::span(block_).first((std::min)(block_bytes, all - at)));
    }
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  void write_in_order(const stored_array& from, safetensors_sink& into) {
    const axis_order order = from.order.inverse();
    const std::size_t rows = order.extent(0), row_bytes = from.location.bytes / rows,
                      at_once = (std::min)((std::max)(block_bytes / row_bytes, std::size_t{1}), rows);
    std::vector<std::byte> whole(from.location.bytes), some(at_once * row_bytes);
    for (std::size_t at = 0; at < whole.size(); at += block_bytes)
      read_(from, at, std::span(whole).subspan(at, (std::min)(block_bytes, whole.size() - at)));
    for (std::size_t r = 0; r < rows; r += at_once) {
      const std::size_t count = (std::min)(at_once, rows - r);
      order.take(whole.data(), bytes_of(from.type), r, count, some.data());
      into.write(std::span<const std::byte>(some).first(count * row_bytes));
    }
  }

  const array_reader& read_;
  std::map<std::string_view, const stored_array*> arrays_;
  std::vector<std::byte> block_;
};

/// Writes the files of a list that are this rank's, each whole and on the disk. `facts` stand in the first file, and
/// the step count in all.
void write_arrays(const std::string& folder, const file_list& list, int rank, std::uint64_t steps,
                  safetensors_metadata facts, const array_reader& read, file_operations& files);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/write_arrays-inl.hpp>
#endif
