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
