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

}  // namespace gpipe
