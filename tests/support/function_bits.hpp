#pragma once

#include <gpipe/core/hash.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

/// Argument `i` of 2^16 of a function: every other one is on a grid from -limit to limit, and the others are spread
/// over the bits of all numbers.
template <class T>
T function_argument(std::uint32_t i, T limit) {
  if (i % 2 == 0) return static_cast<T>(static_cast<std::int32_t>(i) - 32768) * (limit * T(0x1p-15));
  if constexpr (sizeof(T) == sizeof(float)) return std::bit_cast<T>(i * 0x9e3779b9U);
  else return std::bit_cast<T>(i * std::uint64_t{0x9e3779b97f4a7c15});
}

/// A hash of the bits of a function at these arguments, in which all NaN are equal. A committed hash is compared by
/// every compiler, with every flag and on every processor that runs the test.
template <class T, class F>
std::uint64_t function_bits(F f, T limit) {
  gpipe::detail::hash sum;
  for (std::uint32_t i = 0; i < 1U << 16; ++i) {
    const T y = f(function_argument(i, limit));
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(std::isnan(y) ? T(0.125) : y);
    sum.add(bytes.data(), bytes.size());
  }
  return sum.value();
}
