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

namespace gpipe {

GPIPE_COLD GPIPE_INLINE safetensors_set::safetensors_set(const std::string& path, detail::file_operations& files)
    : path_(path) {
  using detail::throw_error;
  if (!path.ends_with(".json")) {
    const safetensors_file& file = files_.emplace_back(path, files);
    for (const safetensors_entry& e : file.entries()) tensors_.emplace(e.name, tensor_location{&file, &e});
    return;
  }
  safetensors_index index;
  {
    const detail::open_file file(files, path, O_RDONLY | O_NONBLOCK);
    const std::uint64_t size = file.size();
    if (size > detail::max_header)
      throw_error({"the index has ", size, " bytes, but at most ", detail::max_header, " are read"},
                  {"give an index of safetensors files"}, {.file = path});
    std::string text(static_cast<std::size_t>(size), '\0');
    file.read_at(text.data(), text.size(), 0);
    index = detail::parse_index(text, path);
  }
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

GPIPE_COLD GPIPE_INLINE const safetensors_set::tensor_location* safetensors_set::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

GPIPE_COLD GPIPE_INLINE const safetensors_metadata& safetensors_set::metadata() const {
  static const safetensors_metadata none;
  return files_.empty() ? none : files_.front().metadata();
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
