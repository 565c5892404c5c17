#pragma once

// The arithmetic of PTX, which translated kernels include with device_code.hpp.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace emulated {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

template <class To, class From>
To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return std::bit_cast<To>(from);
}
inline float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline double flush(double x) { return x; }
template <class F>
F saturate(F x) {
  return x > 0 ? (x < 1 ? x : F(1)) : F(0);
}  // NaN gives 0

template <class I>
I shift_left(I x, u32 by) {
  return by >= 8 * sizeof(I) ? I(0) : I(std::make_unsigned_t<I>(x) << by);
}
template <class I>
I shift_right(I x, u32 by) {
  constexpr u32 width = 8 * sizeof(I);
  if (by >= width) return std::is_signed_v<I> && x < 0 ? I(-1) : I(0);
  return I(x >> by);
}
template <class I>
I multiply(I a, I b) {
  using U = std::common_type_t<std::make_unsigned_t<I>, u32>;
  return I(U(a) * U(b));
}
template <class I>
I divide(I a, I b) {
  return b == 0 ? I(-1) : std::is_signed_v<I> && b == I(-1) ? I(0 - std::make_unsigned_t<I>(a)) : I(a / b);
}
template <class I>
I remainder_of(I a, I b) {
  return b == 0 ? a : std::is_signed_v<I> && b == I(-1) ? I(0) : I(a % b);
}
template <class I>
I high_product(I a, I b) {
  if constexpr (sizeof(I) == 8) {
    using wide = std::conditional_t<std::is_signed_v<I>, __int128, unsigned __int128>;
    return I((wide(a) * wide(b)) >> 64);
  } else {
    using wide = std::conditional_t<std::is_signed_v<I>, s64, u64>;
    return I((wide(a) * wide(b)) >> (8 * sizeof(I)));
  }
}

/// min and max return the other operand of a NaN, and order -0 below +0.
template <class F>
F smaller(F a, F b) {
  if constexpr (std::is_floating_point_v<F>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class F>
F larger(F a, F b) {
  if constexpr (std::is_floating_point_v<F>) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}

/// Rounds other than to nearest: the processor's mode is set for one instruction. Modes: down 0x2000, up 0x4000, to
/// zero 0x6000.
class rounding {
 public:
  explicit rounding(u32 mode) {
    asm volatile("stmxcsr %0" : "=m"(old_));
    const u32 now = (old_ & ~0x6000u) | mode;
    asm volatile("ldmxcsr %0" ::"m"(now) : "memory");
  }
  ~rounding() { asm volatile("ldmxcsr %0" ::"m"(old_) : "memory"); }

 private:
  u32 old_;
};
inline float fma_in(u32 mode, float a, float b, float c) {
  const rounding r(mode);
  asm volatile("vfmadd213ss %2, %1, %0" : "+x"(a) : "x"(b), "x"(c));
  return a;
}
inline double fma_in(u32 mode, double a, double b, double c) {
  const rounding r(mode);
  asm volatile("vfmadd213sd %2, %1, %0" : "+x"(a) : "x"(b), "x"(c));
  return a;
}
inline float narrow_in(u32 mode, double x) {
  const rounding r(mode);
  float found;
  asm volatile("vcvtsd2ss %1, %1, %0" : "=x"(found) : "x"(x));
  return found;
}
template <class F, class I>
F float_of_in(u32 mode, I x) {
  const rounding r(mode);
  volatile I given = x;
  volatile F found = static_cast<F>(given);
  return found;
}

/// To the integer type, rounded already; beyond its range its limit, and NaN 0.
template <class I, class F>
I integer_of(F x) {
  if (std::isnan(x)) return sizeof(I) == 8 ? I(u64{1} << 63) : I(0);
  const F lowest = static_cast<F>(std::numeric_limits<I>::min());
  const F above = std::ldexp(F(1), std::numeric_limits<I>::digits);
  if (x < lowest) return std::numeric_limits<I>::min();
  if (x >= above) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

inline u16 bf16_of(float x) {
  u32 w = bits<u32>(x);
  if (std::isnan(x)) return 0x7fff;
  return static_cast<u16>((w + 0x7fff + ((w >> 16) & 1)) >> 16);
}
inline float of_bf16(u16 x) { return bits<float>(u32{x} << 16); }
inline u16 f16_of(float x) { return bits<u16>(static_cast<_Float16>(x)); }
inline float of_f16(u16 x) { return static_cast<float>(bits<_Float16>(x)); }

// Approximate instructions: the nearest value, which is within the error that PTX allows.
inline float exp2_of(float x) { return static_cast<float>(std::exp2(static_cast<double>(x))); }
inline float log2_of(float x) { return static_cast<float>(std::log2(static_cast<double>(x))); }
inline float tanh_of(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }
inline float sine_of(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }
inline float cosine_of(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
inline float inverse_root(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline double inverse_root(double x) { return 1 / std::sqrt(x); }
inline double coarse(double x) { return bits<double>(bits<u64>(x) & 0xffffffff00000000u); }  // low half is zero

inline u32 permute(u32 a, u32 b, u32 how) {
  const u64 all = u64{b} << 32 | a;
  u32 found = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 sel = how >> (4 * i) & 15;
    u32 byte = static_cast<u32>(all >> (8 * (sel & 7))) & 255;
    if (sel & 8) byte = byte & 128 ? 255 : 0;
    found |= byte << (8 * i);
  }
  return found;
}
inline u32 funnel_left(u32 low, u32 high, u32 by) { return static_cast<u32>(((u64{high} << 32 | low) << by) >> 32); }
inline u32 funnel_right(u32 low, u32 high, u32 by) { return static_cast<u32>((u64{high} << 32 | low) >> by); }
inline u32 logic(u32 a, u32 b, u32 c, u32 table) {
  u32 found = 0;
  for (u32 i = 0; i < 8; ++i)
    if (table >> i & 1) found |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return found;
}
template <class U>
U reversed(U x) {
  U found = 0;
  for (u32 i = 0; i < 8 * sizeof(U); ++i) found |= (x >> i & 1) << (8 * sizeof(U) - 1 - i);
  return found;
}
template <class I>
I field(I x, u32 from, u32 count) {
  using U = std::make_unsigned_t<I>;
  constexpr u32 width = 8 * sizeof(I);
  from &= 255, count &= 255;
  if (count == 0) return 0;
  const bool negative =
      std::is_signed_v<I> && (U(x) >> (from + count - 1 < width - 1 ? from + count - 1 : width - 1) & 1);
  U found = from < width ? U(x) >> from : 0;
  if (count < width) {
    const U mask = (U(1) << count) - 1;
    found &= mask;
    if (negative) found |= ~mask;
  }
  return I(found);
}
template <class U>
U insert(U a, U b, u32 at, u32 count) {
  constexpr u32 width = 8 * sizeof(U);
  at &= 255, count &= 255;
  if (at >= width || count == 0) return b;
  const U mask = (count >= width ? ~U(0) : (U(1) << count) - 1) << at;
  return (b & ~mask) | (a << at & mask);
}

}  // namespace emulated
