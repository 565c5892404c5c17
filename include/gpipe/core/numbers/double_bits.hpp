#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>

namespace gpipe {

/// A double in a layer's settings, which are a template argument: `struct settings { double_bits epsilon = 1e-5; };`.
/// It converts from and to double, and is held as a whole number, because nvcc writes a kernel's type with the double's
/// shortest decimal text. For 10 * 1e-6 that text, 1e-05, names the neighbouring double: nvcc registers the kernel of
/// another type, and CUDA does not find the one that is launched.
struct double_bits {
  enum class pattern : std::uint64_t {};
  pattern bits;

  GPIPE_HOST_DEVICE constexpr double_bits(double x) : bits(__builtin_bit_cast(pattern, x)) {}
  GPIPE_HOST_DEVICE constexpr double_bits(pattern stored) : bits(stored) {}  // called by the code that nvcc writes
  GPIPE_HOST_DEVICE constexpr operator double() const { return __builtin_bit_cast(double, bits); }
};

}  // namespace gpipe

namespace gpipe::detail {

// Tests of a number's bits. With -ffast-math a compiler may assume that no number is NaN or infinite: then it takes
// std::isfinite(x) for true, and !(x >= 0) for x < 0, which is false for NaN.
//
//     a double:  sign 1 bit | exponent 11 bits, all ones: infinite or NaN | fraction 52 bits, 0: infinite

/// Whether x is neither infinite nor NaN.
GPIPE_HOST_DEVICE constexpr bool is_finite(double x) {
  return (__builtin_bit_cast(std::uint64_t, x) >> 52 & 0x7ff) != 0x7ff;
}
GPIPE_HOST_DEVICE constexpr bool is_finite(float x) {
  return (__builtin_bit_cast(std::uint32_t, x) >> 23 & 0xff) != 0xff;
}

GPIPE_HOST_DEVICE constexpr bool is_nan(double x) {
  return __builtin_bit_cast(std::uint64_t, x) << 1 > std::uint64_t{0x7ff} << 53;
}
GPIPE_HOST_DEVICE constexpr bool is_nan(float x) { return __builtin_bit_cast(std::uint32_t, x) << 1 > 0xffU << 24; }

}  // namespace gpipe::detail
