#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <system_error>
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
// change: an element type
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
  std::vector<T> values(elements);
  loaded.tensor->read(0, std::span(values));
  order.take_blocks(std::as_bytes(std::span(values)).data(), sizeof(T), block_elements * sizeof(T), visit);
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

// change: a checkpoint file format
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

GPIPE_COLD GPIPE_INLINE safetensors_metadata checkpoint_facts::texts() const {
  return {{"gpipe.format", std::to_string(newest_format)},
          {"gpipe.steps", std::to_string(steps)},
          {"gpipe.seed", std::to_string(seed)},
          {"gpipe.epoch", std::to_string(position.epoch)},
          {"gpipe.batch", std::to_string(position.batch)},
          {"gpipe.batch_size", std::to_string(position.batch_size)},
          {"gpipe.samples", std::to_string(position.samples)},
          {"gpipe.frozen", frozen.value_or("")},
          {"gpipe.optimizer", optimizer},
          {"gpipe.optimizer_trial", optimizer_trial},
          {"gpipe.rate", rate},
          {"gpipe.groups", groups}};
}

GPIPE_COLD GPIPE_INLINE void require_one_step(const std::deque<safetensors_set>& sets) {
  const safetensors_file* first = nullptr;
  for (const safetensors_set& set : sets)
    for (const safetensors_file& file : set.files()) {
      const auto steps = file.metadata().find("gpipe.steps");
      if (steps == file.metadata().end()) continue;
      if (first == nullptr) first = &file;
      const std::string& first_steps = first->metadata().at("gpipe.steps");
      if (steps->second != first_steps)
        throw_error({"the file is of step ", detail::quoted(steps->second), ", but ", detail::quoted(first->path()),
                     " is of step ", detail::quoted(first_steps)},
                    {"load files of one checkpoint"}, {.file = file.path()});
    }
}

GPIPE_COLD GPIPE_INLINE checkpoint_facts read_facts(const safetensors_metadata& texts, const std::string& file) {
  const auto text = [&](const char* key) -> const std::string& {
    const auto found = texts.find(key);
    if (found == texts.end())
      throw_error({"the file has no text ", quoted(key), ", so it is no checkpoint of a training"},
                  {"give a folder that save has written"}, {.file = file});
    return found->second;
  };
  const auto number = [&](const char* key, std::uint64_t max = UINT64_MAX, const char* kind = "") {
    const std::string& digits = text(key);
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || end.ec != std::errc{} || end.ptr != digits.data() + digits.size())
      throw_error({"the text ", quoted(key), " is ", detail::quoted(digits), ", which is no number"},
                  {"load another checkpoint"}, {.file = file});
    if (value > max)
      throw_error({"the text ", quoted(key), " is ", value, ", which is no ", kind}, {"load another checkpoint"},
                  {.file = file});
    return value;
  };
  if (const std::uint64_t format = number("gpipe.format"); format > checkpoint_facts::newest_format)
    throw_error(
        {"the checkpoint has format ", format, ", but this library reads up to ", checkpoint_facts::newest_format},
        {"use a newer gpipe"}, {.file = file});
  checkpoint_facts facts;
  const auto count = [&](const char* key) {
    constexpr std::uint64_t max = 1'000'000'000'000'000'000;  // far from where counts overflow
    return number(key, max, "count of a training");
  };
  facts.steps = count("gpipe.steps");
  facts.seed = number("gpipe.seed");
  facts.position = {count("gpipe.epoch"), static_cast<long>(count("gpipe.batch"))};
  facts.frozen.reset();
  if (number("gpipe.format") >= 2) {
    const auto int_count = [&](const char* key) {
      constexpr auto max = static_cast<std::uint64_t>((std::numeric_limits<int>::max)());
      return static_cast<int>(number(key, max, "number of samples"));
    };
    facts.position.batch_size = int_count("gpipe.batch_size");
    facts.position.samples = int_count("gpipe.samples");
    facts.frozen = text("gpipe.frozen");
  }
  facts.optimizer = text("gpipe.optimizer");
  facts.optimizer_trial = text("gpipe.optimizer_trial");
  facts.rate = text("gpipe.rate");
  facts.groups = text("gpipe.groups");
  return facts;
}

}  // namespace gpipe::detail
