#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/checkpoint/index.hpp>
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

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/checkpoint_files-inl.hpp>
#endif
