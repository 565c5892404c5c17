#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe {

/// All bytes of a file, or of a pipe until its end. Throws `error` with the path and the cause.
std::string read_file(const std::string& path, detail::file_operations& files = detail::system_files());

namespace detail {

/// The bytes of a file or a pipe, one by one, read in blocks. It may have no end.
class file_stream {
 public:
  static constexpr int end = -1;

  explicit file_stream(const std::string& path, file_operations& files = system_files());

  /// The next byte, without consuming it, or `end`.
  int peek() { return at_ < size_ || fill() ? static_cast<unsigned char>(block_[at_]) : end; }
  int next() {
    const int byte = peek();
    ++at_;
    return byte;
  }

 private:
  GPIPE_COLD bool fill() {
    at_ = 0;
    size_ = file_.read(block_.data(), block_.size());
    return size_ > 0;
  }

  open_file file_;
  std::vector<char> block_;
  std::size_t at_ = 0, size_ = 0;
};

/// A file as read-only memory. Pages are read from the disk when they are touched, and the system may drop them. The
/// file must not become shorter while it is mapped: then the system ends the program (SIGBUS).
class mapped_file {
 public:
  explicit mapped_file(const std::string& path);
  mapped_file(mapped_file&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  mapped_file& operator=(mapped_file&&) = delete;
  ~mapped_file();

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/file/read_file-inl.hpp>
#endif
