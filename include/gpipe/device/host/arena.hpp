#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/device/contract/address_space.hpp>

namespace gpipe::host {

/// The memory available to the process: free, or freed on demand ("MemAvailable" of Linux), within its address space.
GPIPE_COLD inline std::int64_t memory_left() {
  const std::int64_t mappable = gpipe::detail::address_space_left();
  std::FILE* const info = std::fopen("/proc/meminfo", "r");
  if (info == nullptr) return mappable;
  char line[128];
  long long kibibytes = -1;
  while (kibibytes < 0 && std::fgets(line, sizeof line, info) != nullptr)
    if (std::sscanf(line, "MemAvailable: %lld", &kibibytes) != 1) kibibytes = -1;
  std::fclose(info);
  return kibibytes < 0 ? mappable : (std::min)(mappable, std::int64_t{kibibytes} * 1024);
}

/// Memory of this size or more begins on a large page, and uses large pages if Linux has them: memory that is read or
/// written once per step, or once per token, takes hundreds of small ones, each of which costs a walk through the page
/// tables.
inline constexpr std::size_t large_page = std::size_t{2} << 20;

GPIPE_COLD inline void use_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes >= large_page) madvise(begin, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
}

// change: memory pages
/// The one allocation of a stage, page-aligned and filled with one byte.
class arena {
 public:
  explicit arena(std::size_t bytes, std::byte fill = std::byte{0})
      : bytes_(bytes), alignment_{bytes < large_page ? page : large_page} {
    data_ = static_cast<std::byte*>(::operator new(bytes + gpipe::detail::alignment, alignment_, std::nothrow));
    if (data_ == nullptr)
      throw error("cannot allocate " + std::to_string(bytes) + " bytes of memory for a stage",
                  "use more stages, smaller micro-batches or recompute");
    use_large_pages(data_, bytes);
    std::memset(data_, static_cast<int>(fill), bytes + gpipe::detail::alignment);
  }
  ~arena() { ::operator delete(data_, alignment_); }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t page = 4096;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  std::align_val_t alignment_;
};

}  // namespace gpipe::host
