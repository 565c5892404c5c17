#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/data_position.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>
#include <gpipe/train/checkpoint/names/stored_array.hpp>

namespace gpipe::detail {

/// A safetensors file of a checkpoint: its writer and its arrays.
struct checkpoint_file {
  std::string name;
  int rank = 0;  ///< of the process that writes it
  std::vector<stored_array> arrays{};
};

/// The files of "model" or "optimizer": one, STEM.safetensors, or STEM-00001-of-00003.safetensors and so on.
struct file_list {
  std::string stem;
  std::vector<checkpoint_file> files;

  bool has_index() const { return files.size() != 1; }
  std::string index_name() const { return stem + ".safetensors.index.json"; }
};

/// Deals arrays to files in model order. Each rank writes its own files; a file has one array, or at most `max_bytes`.
file_list deal_arrays(std::string stem, std::vector<stored_array> arrays, std::uint64_t max_bytes,
                      const std::function<int(const stored_array&)>& rank_of);

safetensors_type stored_type(dtype type);

/// Maps each array to its file.
safetensors_index index_of(const file_list& list);

/// The headers of a file's tensors.
std::vector<safetensors_tensor> tensors_of(const checkpoint_file& file);

/// An array, and the tensor that has its values.
struct loaded_array {
  stored_array array;
  const safetensors_set::tensor_location* tensor;
};

/// Takes bytes of an array, in the type and the layout of the model, from byte `offset` on.
using array_visit = std::function<void(std::size_t offset, std::span<const std::byte> bytes)>;

/// Reads a tensor in blocks, converts it, and passes each block to `visit`. A tensor whose elements have another order
/// in memory is read as a whole.
void read_array(const loaded_array& loaded, const array_visit& visit);

/// Tied layers share one array. Throws if a file has it under two names with different values. `working` is called
/// before each block.
void require_equal_twins(const std::vector<loaded_array>& arrays, const std::function<void()>& working);

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
    std::vector<std::byte> values(array.location.bytes);
    for (std::size_t offset = 0; offset < values.size(); offset += block_bytes)
      read_(array, offset, std::span(values).subspan(offset, (std::min)(block_bytes, values.size() - offset)));
    array.order.inverse().take_blocks(values.data(), bytes_of(array.type), block_bytes,
                                      [&](std::size_t, std::span<const std::byte> rows) { sink.write(rows); });
  }

  const array_reader& read_;
  std::map<std::string_view, const stored_array*> arrays_;
  std::vector<std::byte> block_;
};

/// Writes this rank's files of a list, each complete and on the disk. `facts` are stored in the first file, and the
/// step count in all.
void write_arrays(const std::string& folder, const file_list& list, int rank, std::uint64_t steps,
                  safetensors_metadata facts, const array_reader& read, file_operations& files);

// change: the random number generator; the user's choice
// change: checkpoint contents; a number or a text; older files lack it
/// The texts of a checkpoint, in the header of the optimizer's first file. The step count is in every file.
///
///     gpipe.format 2, gpipe.steps 120, gpipe.seed 7,
///     gpipe.epoch 2, gpipe.batch 13, gpipe.batch_size 32, gpipe.samples 5000, gpipe.frozen 0.weight, 0.bias,
///     gpipe.optimizer adamw, gpipe.optimizer_trial 0.87...,
///     gpipe.rate 0.001, gpipe.groups *.bias: rate_factor 1, weight_decay 0
struct checkpoint_facts {
  static constexpr std::uint64_t newest_format = 2;

  std::uint64_t steps = 0, seed = 0;
  data_position position{};
  std::string optimizer{};        ///< the name of its type
  std::string optimizer_trial{};  ///< the result of two updates with its settings
  std::string rate{};             ///< of the next step
  std::string groups{};           ///< of parameters
  /// The paths of the parameters frozen by `freeze`, one per line; nullopt: a checkpoint of format 1, which does not
  /// store them.
  std::optional<std::string> frozen = "";

  safetensors_metadata texts() const;
};

/// Throws if files of a checkpoint are of different steps.
void require_one_step(const std::deque<safetensors_set>& sets);

/// Throws if a text is missing or is no number, or if the format is newer than this library.
checkpoint_facts read_facts(const safetensors_metadata& texts, const std::string& file);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/checkpoint_files-inl.hpp>
#endif
