#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>

namespace gpipe::detail {

/// The system's calls that write and read files, with their results: -1 and errno on failure. Tests replace some of
/// them by calls that fail.
struct file_operations {
  virtual ~file_operations() = default;

  virtual int open(const char* path, int flags, int mode) { return ::open(path, flags | O_CLOEXEC, mode); }
  virtual int close(int file) { return ::close(file); }
  virtual long read(int file, void* buffer, std::size_t bytes) { return ::read(file, buffer, bytes); }
  virtual long read_at(int file, void* buffer, std::size_t bytes, std::uint64_t offset) {
    return ::pread(file, buffer, bytes, static_cast<off_t>(offset));
  }
  virtual long write(int file, const void* data, std::size_t bytes) { return ::write(file, data, bytes); }
  virtual int sync(int file) { return ::fsync(file); }
  /// A hint: the disk may begin to write these bytes.
  GPIPE_INLINE virtual void write_behind(int file, std::uint64_t offset, std::uint64_t bytes);
  /// A hint: these bytes are read soon.
  GPIPE_INLINE virtual void read_ahead(int file, std::uint64_t offset, std::uint64_t bytes);
  GPIPE_INLINE virtual int size(int file, std::uint64_t& bytes);
  /// Locks the file for this descriptor, until it is closed or its process ends; does not wait.
  virtual int lock(int file) { return ::flock(file, LOCK_EX | LOCK_NB); }

  enum class kind { none, file, folder, other };
  /// Does not follow links.
  virtual kind kind_of(const char* path) {
    struct stat about {};
    if (::lstat(path, &about) != 0) return kind::none;
    return S_ISREG(about.st_mode) ? kind::file : S_ISDIR(about.st_mode) ? kind::folder : kind::other;
  }
  virtual int rename(const char* path, const char* new_path) { return ::rename(path, new_path); }
  GPIPE_INLINE virtual int exchange(const char* a, const char* b);  ///< exchanges two names atomically
  virtual int make_folder(const char* path) { return ::mkdir(path, 0777); }
  virtual int remove_file(const char* path) { return ::unlink(path); }
  virtual int remove_folder(const char* path) { return ::rmdir(path); }
  GPIPE_INLINE virtual int list(const char* folder, std::vector<std::string>& names);
};

/// The system's calls.
file_operations& system_files();

/// Throws an error: `action` failed for the reason in errno.
[[noreturn]] void throw_file_error(const char* action, const std::string& file);

/// Makes the names in a folder durable.
void sync_folder(file_operations& files, const std::string& folder);

/// A descriptor, closed at the end.
class open_file {
 public:
  open_file(file_operations& files, std::string path, int flags);
  open_file(open_file&& source) noexcept
      : files_(source.files_),
        path_(std::move(source.path_)),
        file_(std::exchange(source.file_, -1)),
        written_(source.written_),
        hinted_(source.hinted_) {}
  open_file& operator=(open_file&&) = delete;
  ~open_file();

  const std::string& path() const { return path_; }
  int descriptor() const { return file_; }
  std::uint64_t size() const;
  /// Reads the next bytes, some or all of them, and returns their number. 0: the file ends here.
  std::size_t read(void* buffer, std::size_t bytes) const;
  void read_at(void* buffer, std::size_t bytes, std::uint64_t offset) const;
  /// A hint: these bytes are read soon.
  void read_ahead(std::uint64_t offset, std::uint64_t bytes) const { files_->read_ahead(file_, offset, bytes); }
  /// False if another descriptor has the lock. A file system without locks is no error.
  GPIPE_COLD bool lock() { return files_->lock(file_) == 0 || errno != EWOULDBLOCK; }
  /// Appends to the bytes written before. The disk works meanwhile.
  void write(const void* data, std::size_t bytes);
  /// Makes the written bytes durable, and closes the file.
  void finish();

 private:
  static constexpr std::uint64_t hint_bytes = std::uint64_t{8} << 20;

  file_operations* files_;
  std::string path_;
  int file_;
  std::uint64_t written_ = 0, hinted_ = 0;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/record/file/file_operations-inl.hpp>
#endif
