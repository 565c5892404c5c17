#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>

namespace gpipe {

/// A number in 16 bits with a float's range, the upper half of a float: 8 bits of exponent and 7 of fraction (Dean et
/// al., 2012). It is memory, not arithmetic: it reads as a float, exactly, and a float that is written to it rounds to
/// the nearest, ties to even; NaN stays NaN, and what rounds beyond the greatest becomes infinite. As CUDA's
/// __nv_bfloat16 lies in memory.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  // Integer operations without a choice, so that loops over many vectorise well. A NaN, of all ones in `nan`, is not
  // rounded but made quiet, lest its fraction's upper bits be zeros.
  GPIPE_HOST_DEVICE constexpr bf16(float x) : bits(0) {
    const auto from = __builtin_bit_cast(std::uint32_t, x);
    const auto nan = static_cast<std::uint32_t>((0x7f800000 - static_cast<std::int32_t>(from & 0x7fffffffU)) >> 31);
    const std::uint32_t half = 0x7fffU + (from >> 16 & 1U);
    bits = static_cast<std::uint16_t>(((from + (half & ~nan)) | (0x400000U & nan)) >> 16);
  }
  GPIPE_HOST_DEVICE constexpr operator float() const { return __builtin_bit_cast(float, std::uint32_t{bits} << 16); }
};

}  // namespace gpipe
