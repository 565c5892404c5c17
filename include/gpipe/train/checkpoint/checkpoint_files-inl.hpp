#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/train/checkpoint/checkpoint_files.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE file_list deal_arrays(std::string stem, std::vector<stored_array> arrays,
                                              std::uint64_t max_bytes,
                                              const std::function<int(const stored_array&)>& rank_of) {
  std::map<int, std::vector<checkpoint_file>> of_rank;
  std::map<int, std::uint64_t> bytes;
  for (stored_array& array : arrays) {
    const int rank = rank_of(array);
    std::vector<checkpoint_file>& files = of_rank[rank];
    std::uint64_t& filled = bytes[rank];
    if (files.empty() || filled + array.location.bytes > max_bytes) {
      files.push_back({"", rank});
      filled = 0;
    }
    filled += array.location.bytes;
    files.back().arrays.push_back(std::move(array));
  }
  file_list list{std::move(stem), {}};
  for (auto& [rank, files] : of_rank)
    for (checkpoint_file& file : files) list.files.push_back(std::move(file));
  if (list.files.empty()) list.files.push_back({"", 0});
  const int count = static_cast<int>(list.files.size());
  for (int i = 0; i < count; ++i)
    list.files[index(i)].name = list.has_index() ? shard_name(list.stem, i + 1, count) : list.stem + ".safetensors";
  return list;
}

// assumes: half precision is bf16
GPIPE_COLD GPIPE_INLINE safetensors_type stored_type(dtype type) {
  switch (type) {
    case dtype::float64:
      return safetensors_type::F64;
    case dtype::bf16:
      return safetensors_type::BF16;
    case dtype::int32:
      return safetensors_type::I32;
    case dtype::uint8:
      return safetensors_type::U8;
    case dtype::float32:
      break;
  }
  return safetensors_type::F32;
}

GPIPE_COLD GPIPE_INLINE safetensors_index index_of(const file_list& list) {
  safetensors_index index{{}, 0};
  for (const checkpoint_file& file : list.files)
    for (const stored_array& array : file.arrays) {
      index.file_of.emplace(array.name, file.name);
      *index.total_size += array.location.bytes;
    }
  return index;
}

GPIPE_COLD GPIPE_INLINE std::vector<safetensors_tensor> tensors_of(const checkpoint_file& file) {
  std::vector<safetensors_tensor> tensors;
  for (const stored_array& array : file.arrays) {
    safetensors_tensor tensor{array.name, stored_type(array.type), {}};
    for (int d = 0; d < array.extents.rank; ++d)
      tensor.shape.push_back(static_cast<std::uint64_t>(array.extents.extents[d]));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace gpipe::detail
