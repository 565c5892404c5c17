#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include <gpipe/core/error.hpp>
#include <gpipe/record/file/mapped_file.hpp>

namespace gpipe::detail {

#if defined(_WIN32)
GPIPE_COLD GPIPE_INLINE mapped_file::mapped_file(const std::string& path) {
  throw error("files cannot be mapped on this system", "read it into a dataset", {.file = path});
}
GPIPE_COLD GPIPE_INLINE mapped_file::~mapped_file() {}
GPIPE_COLD GPIPE_INLINE void mapped_file::advise(std::size_t, std::size_t, bool) const {}
#else
GPIPE_COLD GPIPE_INLINE mapped_file::mapped_file(const std::string& path) {
  const auto fail = [&](const std::string& wrong, const char* remedy) { throw error(wrong, remedy, {.file = path}); };
  const auto reason = [] { return std::string(std::strerror(errno)); };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe does not wait for a writer
  if (file < 0) fail("cannot be opened: " + reason(), "give the path of a file that may be read");
  struct stat found {};
  const bool known = ::fstat(file, &found) == 0, regular = known && S_ISREG(found.st_mode);
  void* at = MAP_FAILED;
  if (regular && found.st_size > 0)
    at = ::mmap(nullptr, static_cast<std::size_t>(found.st_size), PROT_READ, MAP_SHARED, file, 0);
  const std::string why = reason();
  ::close(file);
  if (!regular) fail("is no file that can be mapped", "give the path of a regular file");
  if (found.st_size == 0) fail("is empty", "give a file with rows");
  if (at == MAP_FAILED) fail("cannot be mapped: " + why, "raise the limit of address space");
  data_ = static_cast<const std::byte*>(at);
  size_ = static_cast<std::size_t>(found.st_size);
}

GPIPE_COLD GPIPE_INLINE mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

GPIPE_COLD GPIPE_INLINE void mapped_file::advise(std::size_t from, std::size_t to, bool wanted) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Whole pages: all that are wanted, and to drop only those without another's bytes.
  if (wanted) from = from / page * page;
  else from = (from + page - 1) / page * page, to = to == size_ ? to : to / page * page;
  if (from >= to) return;
  auto* const at = const_cast<std::byte*>(data_) + from;
  // Only a hint: without it, pages are read when they are touched.
  static_cast<void>(::madvise(at, to - from, wanted ? MADV_WILLNEED : MADV_DONTNEED));
}
#endif

}  // namespace gpipe::detail
