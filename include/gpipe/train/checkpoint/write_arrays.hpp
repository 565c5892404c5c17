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

/// Copies bytes of an array, from byte `offset` on.
using array_reader = std::function<void(const stored_array& array, std::size_t offset, std::span<std::byte> target)>;

/// Reads an array in blocks, and writes them. An array whose elements have another order in the file is read as a whole
/// first.
class array_source {
 public:
  array_source(const checkpoint_file& file, const array_reader& read) : read_(read), block_(block_bytes) {
    for (const stored_array& array : file.arrays) arrays_.emplace(array.name, &array);
  }
  void operator()(const safetensors_entry& tensor, safetensors_sink& sink) {
    const stored_array& array = *arrays_.at(tensor.name);
    if (!array.order.same()) return write_in_order(array, sink);
    for (std::size_t offset = 0, bytes = array.location.bytes; offset < bytes; offset += block_bytes) {
      const std::span block = std::span(block_).first((std::min)(block_bytes, bytes - offset));
      read_(array, offset, block);
      sink.write(std::span<const std::byte>(block));
    }
  }
  /// Reads all tensors in the order in which a file has them, and writes none: for a process that only takes part.
  void read_all(const safetensors_header& header) {
    for (const safetensors_entry& e : header.entries) {
      const stored_array& array = *arrays_.at(e.name);
      for (std::size_t offset = 0, bytes = array.location.bytes; offset < bytes; offset += block_bytes)
        read_(array, offset, std::span(block_).first((std::min)(block_bytes, bytes - offset)));
    }
  }

 private:
  static constexpr std::size_t block_bytes = std::size_t{4} << 20;

  void write_in_order(const stored_array& array, safetensors_sink& sink) {
    const axis_order order = array.order.inverse();
    const std::size_t rows = order.extent(0), row_bytes = array.location.bytes / rows,
                      block_rows = (std::min)((std::max)(block_bytes / row_bytes, std::size_t{1}), rows);
    std::vector<std::byte> values(array.location.bytes), block(block_rows * row_bytes);
    for (std::size_t offset = 0; offset < values.size(); offset += block_bytes)
      read_(array, offset, std::span(values).subspan(offset, (std::min)(block_bytes, values.size() - offset)));
    for (std::size_t r = 0; r < rows; r += block_rows) {
      const std::size_t count = (std::min)(block_rows, rows - r);
      order.take(values.data(), bytes_of(array.type), r, count, block.data());
      sink.write(std::span<const std::byte>(block).first(count * row_bytes));
    }
  }

  const array_reader& read_;
  std::map<std::string_view, const stored_array*> arrays_;
  std::vector<std::byte> block_;
};

/// Writes this rank's files of a list, each complete and on the disk. `facts` are stored in the first file, and the
/// step count in all.
void write_arrays(const std::string& folder, const file_list& list, int rank, std::uint64_t steps,
                  safetensors_metadata facts, const array_reader& read, file_operations& files);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/write_arrays-inl.hpp>
#endif
