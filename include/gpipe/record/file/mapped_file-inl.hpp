#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <sys/mman.h>

#include <gpipe/record/file/file_operations.hpp>
#include <gpipe/record/file/mapped_file.hpp>

namespace gpipe::detail {

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

}  // namespace gpipe::detail
