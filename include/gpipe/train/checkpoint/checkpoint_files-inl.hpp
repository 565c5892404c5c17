#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
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

template <class T>
GPIPE_COLD void read_array_as(const loaded_array& loaded, const array_visit& visit) {
  constexpr std::size_t block_elements = std::size_t{1} << 16;  // stay in the cache until they are copied
  const std::size_t elements = loaded.array.extents.size();
  if (elements == 0) return;
  const axis_order& order = loaded.array.order;
  if (order.same()) {
    std::vector<T> block((std::min)(elements, block_elements));
    for (std::size_t offset = 0; offset < elements; offset += block.size()) {
      const std::span<T> values = std::span(block).first((std::min)(block.size(), elements - offset));
      loaded.tensor->read(offset, values);
      visit(offset * sizeof(T), std::as_bytes(values));
    }
    return;
  }
  const std::size_t rows = order.extent(0), row = elements / rows,
                    block_rows = (std::min)((std::max)(block_elements / row, std::size_t{1}), rows);
  std::vector<T> values(elements), block(block_rows * row);
  loaded.tensor->read(0, std::span(values));
  const auto bytes = std::as_writable_bytes(std::span(block));
  for (std::size_t r = 0; r < rows; r += block_rows) {
    const std::size_t count = (std::min)(block_rows, rows - r);
    order.take(std::as_bytes(std::span(values)).data(), sizeof(T), r, count, bytes.data());
    visit(r * row * sizeof(T), bytes.first(count * row * sizeof(T)));
  }
}
GPIPE_COLD GPIPE_INLINE void read_array(const loaded_array& loaded, const array_visit& visit) {
  visit_dtype<double, float>(loaded.array.type, [&]<class T>() { read_array_as<T>(loaded, visit); });
}

GPIPE_COLD inline bool equal_values(const loaded_array& first, const loaded_array& second,
                                    const std::function<void()>& working) {
  std::vector<std::byte> values;
  values.reserve(first.array.location.bytes);
  read_array(first, [&](std::size_t, std::span<const std::byte> block) {
    working();
    values.insert(values.end(), block.begin(), block.end());
  });
  bool equal = true;
  read_array(second, [&](std::size_t offset, std::span<const std::byte> block) {
    working();
    equal = equal && std::memcmp(values.data() + offset, block.data(), block.size()) == 0;
  });
  return equal;
}
GPIPE_COLD GPIPE_INLINE void require_equal_twins(const std::vector<loaded_array>& arrays,
                                                 const std::function<void()>& working) {
  for (const loaded_array& twin : arrays) {
    if (!twin.array.copy) continue;
    for (const loaded_array& first : arrays) {
      const stored_array &a = first.array, &b = twin.array;
      if (a.copy || a.location != b.location) continue;
      if (!equal_values(first, twin, working))
        throw_error({"tensors ", detail::quoted(a.name), " and ", detail::quoted(b.name),
                     " differ, but the model ties them to one array"},
                    {"give both the same values, or load a model that does not tie them"},
                    {.file = twin.tensor->file->path()});
    }
  }
}

GPIPE_COLD GPIPE_INLINE void write_arrays(const std::string& folder, const file_list& list, int rank,
                                          std::uint64_t steps, safetensors_metadata facts, const array_reader& read,
                                          file_operations& files) {
  const safetensors_metadata step_text{{"gpipe.steps", std::to_string(steps)}};
  facts.insert(step_text.begin(), step_text.end());
  for (const checkpoint_file& file : list.files) {
    if (file.rank != rank) continue;
    array_source source(file, read);
    write_safetensors_directly(
        folder + '/' + file.name, tensors_of(file), &file == &list.files.front() ? facts : step_text,
        [&](const safetensors_entry& e, safetensors_sink& sink) { source(e, sink); }, files);
  }
}

}  // namespace gpipe::detail
