#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/checkpoint/write_safetensors.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE safetensors_sink::safetensors_sink(detail::open_file& file, std::uint64_t bytes_of_file)
    : file_(&file) {
  block_.reserve(static_cast<std::size_t>((std::min)(std::uint64_t{block_bytes}, bytes_of_file)));
}

GPIPE_COLD GPIPE_INLINE void safetensors_sink::append(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const char*>(data);
  written_ += bytes;
  while (bytes > 0) {
    if (bytes >= block_bytes) {  // a big piece is not copied
      flush();
      return file_->write(next, bytes);
    }
    const std::size_t count = (std::min)(bytes, block_bytes - block_.size());
    block_.insert(block_.end(), next, next + count);
    next += count, bytes -= count;
    if (block_.size() == block_bytes) flush();
  }
}

GPIPE_COLD GPIPE_INLINE void safetensors_sink::flush() {
  if (!block_.empty()) file_->write(block_.data(), block_.size());
  block_.clear();
}

namespace detail {

// change: the array order in a file
GPIPE_COLD GPIPE_INLINE void write_safetensors_directly(const std::string& path,
                                                        std::vector<safetensors_tensor> tensors,
                                                        safetensors_metadata metadata, const safetensors_source& source,
                                                        file_operations& files) {
  const safetensors_header header = place_tensors(std::move(tensors), std::move(metadata), path);
  const std::string begin = header_bytes(header, path);
  open_file file(files, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  safetensors_sink sink(file, begin.size() + (header.entries.empty() ? 0 : header.entries.back().end));
  sink.append(begin.data(), begin.size());
  for (const safetensors_entry& e : header.entries) {
    if (e.bytes() > 0) source(e, sink);
    if (const std::uint64_t end = begin.size() + e.end; sink.written() != end)
      throw_error({"tensor ", detail::quoted(e.name), " has ", e.bytes(), " bytes, but its source wrote ",
                   sink.written() - (begin.size() + e.begin)},
                  {"write each tensor whole"}, {.file = path});
  }
  sink.flush();
  file.finish();
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE void write_safetensors(const std::string& path, std::vector<safetensors_tensor> tensors,
                                               safetensors_metadata metadata, const safetensors_source& source,
                                               detail::file_operations& files) {
  detail::replace_file(path, files, [&](const std::string& part) {
    detail::write_safetensors_directly(part, std::move(tensors), std::move(metadata), source, files);
  });
}

}  // namespace gpipe
