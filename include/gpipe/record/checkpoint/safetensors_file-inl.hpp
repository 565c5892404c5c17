#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/checkpoint/safetensors_file.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE safetensors_file::safetensors_file(std::string path, detail::file_operations& files)
    : file_(files, std::move(path), O_RDONLY | O_NONBLOCK) {
  const std::uint64_t size = file_.size();
  std::byte length[8]{};
  if (size >= sizeof length) file_.read_at(length, sizeof length, 0);
  std::string text(detail::header_length(length, size, this->path()), '\0');
  file_.read_at(text.data(), text.size(), sizeof length);
  data_ = sizeof length + text.size();
  header_ = detail::parse_header(text, size - data_, this->path());
}

GPIPE_COLD GPIPE_INLINE const safetensors_entry& safetensors_file::at(std::string_view name) const {
  if (const safetensors_entry* found = find(name)) return *found;
  detail::throw_error({"the file has no tensor ", detail::quoted(name)}, {"choose one of its ", entries().size()},
                      {.file = path()});
}

GPIPE_COLD GPIPE_INLINE void safetensors_file::read_bytes(const safetensors_entry& tensor, std::uint64_t first,
                                                          std::span<std::byte> target) const {
  if (first > tensor.bytes() || target.size() > tensor.bytes() - first)
    detail::throw_error({"tensor ", detail::quoted(tensor.name), " has ", tensor.bytes(), " bytes; ", target.size(),
                         " were to be read from byte ", first},
                        {"read what it has"}, {.file = path()});
  file_.read_at(target.data(), target.size(), data_ + tensor.begin + first);
}

template <class T>
void safetensors_file::read_converted(const safetensors_entry& tensor, std::uint64_t first, std::span<T> target) const {
  detail::require_convertible(tensor.type, tensor.name, path());
  const std::size_t size = detail::bits_of(tensor.type) / 8;
  if (first > tensor.elements() || target.size() > tensor.elements() - first)
    detail::throw_error({"tensor ", detail::quoted(tensor.name), " has ", tensor.elements(), " elements; ",
                         target.size(), " were to be read from element ", first},
                        {"read what it has"}, {.file = path()});
  if (tensor.type == detail::safetensors_type_of<T>)
    return read_bytes(tensor, first * size, std::as_writable_bytes(target));
  std::vector<std::byte> block((std::min)(target.size() * size, std::size_t{1} << 20));
  for (std::size_t done = 0; done < target.size();) {
    const std::size_t count = (std::min)(block.size() / size, target.size() - done);
    read_bytes(tensor, (first + done) * size, std::span(block).first(count * size));
    detail::convert(tensor.type, block.data(), count, target.data() + done, tensor.name, path());
    done += count;
  }
}

GPIPE_INLINE void safetensors_file::read(const safetensors_entry& t, std::uint64_t first,
                                         std::span<float> target) const {
  read_converted(t, first, target);
}
GPIPE_INLINE void safetensors_file::read(const safetensors_entry& t, std::uint64_t first,
                                         std::span<double> target) const {
  read_converted(t, first, target);
}
GPIPE_INLINE void safetensors_file::read(const safetensors_entry& t, std::uint64_t first,
                                         std::span<bf16> target) const {
  read_converted(t, first, target);
}

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
