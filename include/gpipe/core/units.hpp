#pragma once

#include <cstdint>

namespace gpipe {

inline namespace literals {

// Sizes in bytes: 8_GiB.
consteval std::int64_t operator""_KiB(unsigned long long n) { return static_cast<std::int64_t>(n << 10); }
consteval std::int64_t operator""_MiB(unsigned long long n) { return static_cast<std::int64_t>(n << 20); }
consteval std::int64_t operator""_GiB(unsigned long long n) { return static_cast<std::int64_t>(n << 30); }
consteval std::int64_t operator""_KB(unsigned long long n) { return static_cast<std::int64_t>(n * 1'000); }
consteval std::int64_t operator""_MB(unsigned long long n) { return static_cast<std::int64_t>(n * 1'000'000); }
consteval std::int64_t operator""_GB(unsigned long long n) { return static_cast<std::int64_t>(n * 1'000'000'000); }

}  // namespace literals

}  // namespace gpipe
