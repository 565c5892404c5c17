#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/record/file/file_operations.hpp>

namespace gpipe::detail {

GPIPE_INLINE void file_operations::write_behind(int file, std::uint64_t offset, std::uint64_t bytes) {
#ifdef SYNC_FILE_RANGE_WRITE
  static_cast<void>(
      ::sync_file_range(file, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE));
#else
  (void)file, (void)offset, (void)bytes;
#endif
}
GPIPE_INLINE void file_operations::read_ahead(int file, std::uint64_t offset, std::uint64_t bytes) {
#ifdef POSIX_FADV_WILLNEED
  static_cast<void>(::posix_fadvise(file, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED));
#else
  (void)file, (void)offset, (void)bytes;
#endif
}
GPIPE_INLINE int file_operations::size(int file, std::uint64_t& bytes) {
  struct stat about {};
  if (::fstat(file, &about) != 0) return -1;
  if (!S_ISREG(about.st_mode)) {
    errno = S_ISDIR(about.st_mode) ? EISDIR : ESPIPE;
    return -1;
  }
  bytes = static_cast<std::uint64_t>(about.st_size);
  return 0;
}
GPIPE_INLINE int file_operations::exchange(const char* a, const char* b) {
#ifdef SYS_renameat2
  constexpr unsigned exchange_both = 2;  // RENAME_EXCHANGE of linux/fs.h
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, exchange_both));
#else
  (void)a, (void)b;
  errno = ENOSYS;
  return -1;
#endif
}
GPIPE_INLINE int file_operations::list(const char* folder, std::vector<std::string>& names) {
  DIR* const open = ::opendir(folder);
  if (!open) return -1;
  errno = 0;
  while (const dirent* entry = ::readdir(open)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  const int reason = errno;
  ::closedir(open);
  errno = reason;
  return reason == 0 ? 0 : -1;
}

GPIPE_COLD GPIPE_INLINE file_operations& system_files() {
  static file_operations files;
  return files;
}

GPIPE_COLD GPIPE_INLINE void throw_file_error(const char* action, const std::string& file) {
  const int reason = errno;
  const char* remedy = "check the path and its disk";
  if (reason == ENOSPC || reason == EDQUOT) remedy = "free space on the disk, or choose another folder";
  else if (reason == EACCES || reason == EPERM || reason == EROFS)
    remedy = "allow this user to do so, or choose another folder";
  else if (reason == ENOENT) remedy = "check the path; its folder must be there";
  else if (reason == ESPIPE || reason == EISDIR) remedy = "give the path of a file";
  else if (reason == EMFILE || reason == ENFILE) remedy = "raise the limit of open files (ulimit -n)";
  else if (reason == EFBIG) remedy = "raise the limit of a file's size (ulimit -f), or choose another disk";
  else if (reason == ENOTDIR || reason == EEXIST) remedy = "choose a path that is free";
  throw_error({action, " failed: ", reason == ESPIPE ? "it is no regular file" : std::strerror(reason)}, {remedy},
              {.file = file});
}

GPIPE_COLD GPIPE_INLINE open_file::open_file(file_operations& files, std::string path, int flags)
    : files_(&files), path_(std::move(path)) {
  do file_ = files.open(path_.c_str(), flags, 0666);
  while (file_ < 0 && errno == EINTR);
  if (file_ < 0) throw_file_error("opening the file", path_);
}
GPIPE_COLD GPIPE_INLINE open_file::~open_file() {
  if (file_ >= 0) files_->close(file_);
}
GPIPE_COLD GPIPE_INLINE std::uint64_t open_file::size() const {
  std::uint64_t bytes = 0;
  if (files_->size(file_, bytes) != 0) throw_file_error("reading the file", path_);
  return bytes;
}
GPIPE_COLD GPIPE_INLINE std::size_t open_file::read(void* buffer, std::size_t bytes) const {
  long count = 0;
  do count = files_->read(file_, buffer, bytes);
  while (count < 0 && errno == EINTR);
  if (count < 0) throw_file_error("reading the file", path_);
  return static_cast<std::size_t>(count);
}
GPIPE_COLD GPIPE_INLINE void open_file::read_at(void* buffer, std::size_t bytes, std::uint64_t offset) const {
  if (const std::uint64_t end = offset + bytes; offset / hint_bytes != end / hint_bytes)
    files_->read_ahead(file_, end, 2 * hint_bytes);
  for (auto* next = static_cast<char*>(buffer); bytes > 0;) {
    const long count = files_->read_at(file_, next, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_file_error("reading the file", path_);
    if (count == 0)
      throw_error({"the file ends at byte ", offset, ", ", bytes, " bytes too early"}, {"copy or write it anew"},
                  {.file = path_});
    next += count, offset += static_cast<std::uint64_t>(count), bytes -= static_cast<std::size_t>(count);
  }
}
GPIPE_COLD GPIPE_INLINE void open_file::write(const void* data, std::size_t bytes) {
  for (const auto* next = static_cast<const char*>(data); bytes > 0;) {
    const long count = files_->write(file_, next, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) throw_file_error("writing the file", path_);
    next += count, bytes -= static_cast<std::size_t>(count), written_ += static_cast<std::uint64_t>(count);
    if (written_ - hinted_ < hint_bytes) continue;
    files_->write_behind(file_, hinted_, written_ - hinted_);
    hinted_ = written_;
  }
}
GPIPE_COLD GPIPE_INLINE void open_file::finish() {
  int result = 0;
  do result = files_->sync(file_);
  while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EINVAL)  // a pipe has no disk
    throw_file_error("writing the file to its disk", path_);
  // Even a close that fails has closed the file: a second one could close a file of another thread.
  if (files_->close(std::exchange(file_, -1)) != 0 && errno != EINTR) throw_file_error("closing the file", path_);
}

GPIPE_COLD GPIPE_INLINE void sync_folder(file_operations& files, const std::string& folder) {
  open_file(files, folder, O_RDONLY | O_DIRECTORY).finish();
}

}  // namespace gpipe::detail
