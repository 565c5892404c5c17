#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>

namespace gpipe {

// assumes: half precision is bf16
/// A number of 16 bits with a float's range, the upper half of a float: 8 bits of exponent and 7 of fraction (Dean et
/// al., 2012). It is for storage, not arithmetic: it converts to float exactly. A float converts to the nearest bf16,
/// ties to even; NaN stays NaN, and a value that rounds beyond the largest bf16 becomes infinite. It has the memory
/// layout of CUDA's __nv_bfloat16.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  // Integer operations without a branch, so that loops vectorize well. `nan` is all ones for a NaN. A NaN is made quiet
  // and not rounded, because the upper bits of its fraction may be zeros.
  GPIPE_HOST_DEVICE constexpr bf16(float x) : bits(0) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (!__builtin_is_constant_evaluated()) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
      return;
    }
#endif
    const auto float_bits = __builtin_bit_cast(std::uint32_t, x);
    const auto nan =
        static_cast<std::uint32_t>((0x7f800000 - static_cast<std::int32_t>(float_bits & 0x7fffffffU)) >> 31);
    const std::uint32_t half = 0x7fffU + (float_bits >> 16 & 1U);
    bits = static_cast<std::uint16_t>(((float_bits + (half & ~nan)) | (0x400000U & nan)) >> 16);
  }
  GPIPE_HOST_DEVICE constexpr operator float() const { return __builtin_bit_cast(float, std::uint32_t{bits} << 16); }
};

}  // namespace gpipe
