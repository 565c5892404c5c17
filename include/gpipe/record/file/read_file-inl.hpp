#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <sys/mman.h>

#include <gpipe/record/file/file_operations.hpp>
#include <gpipe/record/file/read_file.hpp>

namespace gpipe {

namespace detail {

inline constexpr std::size_t read_block_bytes = std::size_t{1} << 16;

GPIPE_COLD GPIPE_INLINE file_stream::file_stream(const std::string& path, file_operations& files)
    : file_(files, path, O_RDONLY), block_(read_block_bytes) {}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE std::string read_file(const std::string& path, detail::file_operations& files) {
  const detail::open_file file(files, path, O_RDONLY);
  std::string content;
  for (std::size_t size = 0;;) {
    content.resize(size + size / 2 + detail::read_block_bytes);
    const std::size_t count = file.read(content.data() + size, content.size() - size);
    size += count;
    if (count > 0) continue;
    content.resize(size);
    return content;
  }
}

namespace detail {

GPIPE_COLD GPIPE_INLINE mapped_file::mapped_file(const std::string& path) {
  const open_file file(system_files(), path, O_RDONLY | O_NONBLOCK);  // a pipe does not wait for a writer
  size_ = file.size();
  if (size_ == 0) throw error("is empty", "give a file with rows", {.file = path});
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (address == MAP_FAILED)
    throw_error({"cannot be mapped: ", std::strerror(errno)}, {"raise the limit of address space"}, {.file = path});
  data_ = static_cast<const std::byte*>(address);
}

GPIPE_COLD GPIPE_INLINE mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace detail

}  // namespace gpipe
