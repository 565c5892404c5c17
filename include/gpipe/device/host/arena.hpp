#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>

namespace gpipe::host {

/// The one allocation of a stage, page-aligned and filled with one byte throughout.
class arena {
 public:
  explicit arena(std::size_t bytes, std::byte fill = std::byte{0}) : bytes_(bytes) {
    data_ = static_cast<std::byte*>(::operator new(bytes + alignment, std::align_val_t{page}, std::nothrow));
    if (data_ == nullptr)
      throw error("the machine does not give " + std::to_string(bytes) + " bytes of memory",
                  "use more stages, smaller micro-batches or recompute");
    std::memset(data_, static_cast<int>(fill), bytes + alignment);
  }
  ~arena() { ::operator delete(data_, std::align_val_t{page}); }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t page = 4096;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace gpipe::host
