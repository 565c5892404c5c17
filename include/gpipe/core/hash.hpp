#pragma once

#include <cstddef>
#include <cstdint>

namespace gpipe::detail {

/// FNV-1a over bytes (Fowler, Noll, Vo). Parameters with equal bits have equal hashes.
class hash {
 public:
  constexpr void add(const std::byte* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ static_cast<std::uint64_t>(data[i])) * 0x100000001b3u;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace gpipe::detail
