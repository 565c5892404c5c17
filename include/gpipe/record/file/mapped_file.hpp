#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <gpipe/core/build_mode.hpp>

namespace gpipe::detail {

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

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/record/file/mapped_file-inl.hpp>
#endif
