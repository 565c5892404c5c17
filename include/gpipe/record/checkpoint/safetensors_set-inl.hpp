#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

namespace detail {

/// Whether a name stays in its folder.
GPIPE_COLD GPIPE_INLINE bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of({"/\\\0", 3}) == std::string_view::npos;
}

GPIPE_COLD GPIPE_INLINE safetensors_index parse_index(std::string_view text, const std::string& file) {
  safetensors_index index;
  json_reader json(text, "the index", file);
  bool has_map = false, has_metadata = false;
  const auto once = [&json](bool& had) {
    if (had) json.fail("a field occurs twice");
    had = true;
  };
  json.object([&](const std::string& key) {
    if (key == "metadata") {
      once(has_metadata);
      json.object([&](const std::string& field) {
        if (field != "total_size") return json.skip();
        if (index.total_size) json.fail("total_size occurs twice");
        index.total_size = json.number();
      });
    } else if (key == "weight_map") {
      once(has_map);
      json.object([&](const std::string& name) {
        const auto [entry, is_new] = index.file_of.try_emplace(name);
        if (!is_new) json.fail("weight_map has a name twice");
        json.string(entry->second);
        if (!is_plain_name(entry->second)) json.fail("weight_map names a file that is not in the folder of the index");
      });
    } else {
      json.skip();
    }
  });
  json.end();
  if (!has_map) json.fail("weight_map is missing");
  return index;
}

GPIPE_COLD GPIPE_INLINE std::string index_text(const safetensors_index& index, const std::string& file) {
  std::string text = "{\n  \"metadata\": {";
  if (index.total_size) text += concat({"\n    \"total_size\": ", *index.total_size, "\n  "});
  text += "},\n  \"weight_map\": {";
  const char* before = "\n    ";
  for (const auto& [name, where] : index.file_of) {
    if (!is_utf8(name) || !is_utf8(where) || !is_plain_name(where))
      throw_error({"tensor ", detail::quoted(name), " is mapped to ", detail::quoted(where),
                   ", which is no name of a file beside the index"},
                  {"choose names in UTF-8, without a folder"}, {.file = file});
    text += before;
    append_json(text, name);
    text += ": ";
    append_json(text, where);
    before = ",\n    ";
  }
  return text += index.file_of.empty() ? "}\n}\n" : "\n  }\n}\n";
}

GPIPE_COLD GPIPE_INLINE void write_safetensors_index_directly(const std::string& path, const safetensors_index& index,
                                                              file_operations& files) {
  const std::string text = index_text(index, path);
  open_file file(files, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  file.write(text.data(), text.size());
  file.finish();
}

GPIPE_COLD GPIPE_INLINE std::string shard_name(std::string_view stem, int shard, int shards) {
  const auto five = [](int number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return concat({stem, "-", five(shard), "-of-", five(shards), ".safetensors"});
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE void write_safetensors_index(const std::string& path, const safetensors_index& index,
                                                     detail::file_operations& files) {
  detail::replace_file(path, files,
                       [&](const std::string& part) { detail::write_safetensors_index_directly(part, index, files); });
}

GPIPE_COLD GPIPE_INLINE safetensors_set::safetensors_set(const std::string& path, detail::file_operations& files)
    : path_(path) {
  using detail::throw_error;
  if (!path.ends_with(".json")) {
    const safetensors_file& file = files_.emplace_back(path, files);
    for (const safetensors_entry& e : file.entries()) tensors_.emplace(e.name, tensor_location{&file, &e});
    return;
  }
  const safetensors_index index = detail::parse_index(
      detail::read_json(path, "the index", detail::max_header, "give an index of safetensors files", files), path);
  std::map<std::string_view, const safetensors_file*> opened;
  for (const auto& [tensor, name] : index.file_of) opened[name] = nullptr;
  std::uint64_t bytes = 0;
  for (auto& [name, file] : opened) {
    file = &files_.emplace_back((std::filesystem::path(path).parent_path() / name).string(), files);
    for (const safetensors_entry& e : file->entries()) {
      const auto mapped = index.file_of.find(e.name);
      if (mapped == index.file_of.end() || mapped->second != name)
        throw_error({"file ", detail::quoted(name), " has a tensor ", detail::quoted(e.name),
                     ", which the index does not map to it"},
                    {"write the index anew"}, {.file = path});
      tensors_.emplace(e.name, tensor_location{file, &e});
      bytes += e.bytes();
    }
  }
  for (const auto& [tensor, name] : index.file_of)
    if (!find(tensor))
      throw_error({"the index maps tensor ", detail::quoted(tensor), " to file ", detail::quoted(name),
                   ", which does not have it"},
                  {"write the index anew"}, {.file = path});
  if (index.total_size && *index.total_size != bytes)
    throw_error({"total_size is ", *index.total_size, ", but the tensors have ", bytes, " bytes"},
                {"correct total_size, or delete it"}, {.file = path});
}

namespace detail {

GPIPE_COLD GPIPE_INLINE safetensors_set open_set(const std::string& folder, const std::string& stem,
                                                 file_operations& files) {
  const std::string file = concat({folder, "/", stem, ".safetensors"}), index = file + ".index.json";
  const bool has_index = files.kind_of(index.c_str()) != file_operations::kind::none;
  if (has_index && files.kind_of(file.c_str()) != file_operations::kind::none)
    throw_error({"the folder has ", detail::quoted(stem + ".safetensors"), " and an index of the same name"},
                {"delete the one that is old"}, {.file = folder});
  return safetensors_set(has_index ? index : file, files);
}

}  // namespace detail

}  // namespace gpipe
