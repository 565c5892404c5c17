#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

/// Elementary functions for kernels. The float versions are straight-line code of additions, multiplications and
/// integer operations: no table and no branch. They compare no floating-point values either, because under trapping
/// math (the default) a comparison stops g++ from vectorizing so long a loop. Each product that is added to is an
/// explicit `multiply_add`, so a number has the same bits in a vector and alone. They follow IEEE 754 (so not under
/// -ffast-math): NaN gives NaN; infinities and denormal numbers are correct. Errors are against the exact value, over
/// all floats. The double versions are the standard library's.
namespace gpipe::math {

namespace detail {

using gpipe::detail::multiply_add;

inline constexpr std::int32_t sign_bit = std::int32_t(0x80000000), infinity_bits = 0x7f800000, nan_bits = 0x7fc00000;

// The builtin, because nvcc does not compile std::bit_cast for the device.
GPIPE_HOST_DEVICE inline std::int32_t bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
GPIPE_HOST_DEVICE inline float number(std::int32_t bits) { return __builtin_bit_cast(float, bits); }

// All ones if the magnitude is above the limit. Both are given as bits, which have the same order as the numbers.
GPIPE_HOST_DEVICE inline std::int32_t above(std::int32_t magnitude, std::int32_t limit) {
  return (limit - magnitude) >> 31;
}

}  // namespace detail

/// a * b + c with the same bits wherever a program computes it: what kernels and optimizers of your own should add by.
using gpipe::detail::multiply_add;

/// `x` clamped to [-limit, limit], with the sign of `x`. NaN becomes `limit` in magnitude, too.
GPIPE_HOST_DEVICE inline float bounded(float x, float limit) {
  const std::int32_t sign = detail::bits(x) & detail::sign_bit, magnitude = detail::bits(x) & ~detail::sign_bit;
  const std::int32_t max = detail::bits(limit);
  return detail::number((magnitude > max ? max : magnitude) | sign);
}
GPIPE_HOST_DEVICE inline double bounded(double x, double limit) {
  const double magnitude = std::fabs(x) <= limit ? std::fabs(x) : limit;
  return std::copysign(magnitude, x);
}

/// The exponential function, to 1 unit in the last place; a GPU computes it by its special function units.
///
///     e^x = 2^n e^r,  n = round(x / log 2),  r = x - n log 2,  |r| <= log(2) / 2,  e^r = 1 + r + r^2 p(r)
GPIPE_HOST_DEVICE inline float exp(float x) {
#ifdef __CUDA_ARCH__
  return ::expf(x);
#else
  const std::int32_t magnitude = detail::bits(x) & ~detail::sign_bit;
  // Beyond 105 the result is 0 or infinite, and remains so when the two scalings below round.
  const float y = bounded(x, 105.0F);
  // Adding 1.5 * 2^23 shifts the fraction out: the low bits of the sum are the rounded integer.
  const float shifted = detail::multiply_add(y, 1.44269504F, 12582912.0F);
  const std::int32_t n = detail::bits(shifted) - detail::bits(12582912.0F);
  const float whole = shifted - 12582912.0F;
  // log 2 as a sum of two numbers. The first has 9 bits, so that its product with n is exact.
  const float r = detail::multiply_add(whole, 2.12194440e-4F, detail::multiply_add(whole, -0.693359375F, y));
  float p = 1.3814463902e-3F;
  p = detail::multiply_add(p, r, 8.3687803820e-3F);
  p = detail::multiply_add(p, r, 4.1668394263e-2F);
  p = detail::multiply_add(p, r, 1.6666520108e-1F);
  p = detail::multiply_add(p, r, 4.9999993412e-1F);
  p = detail::multiply_add(p, r * r, r) + 1.0F;
  // 2^n as two factors. Both are normal numbers, so that denormal and infinite results are correct.
  const std::int32_t half = n >> 1;
  p = p * detail::number((half + 127) << 23) * detail::number((n - half + 127) << 23);
  const std::int32_t nan = detail::above(magnitude, detail::infinity_bits) & detail::nan_bits;
  return detail::number(detail::bits(p) | nan);
#endif
}
GPIPE_HOST_DEVICE inline double exp(double x) { return std::exp(x); }

/// The hyperbolic tangent, to 2 units in the last place.
///
///     |x| <= 0.625:  x + x^3 p(x^2),   else  1 - 2 / (e^2|x| + 1) with the sign of x
GPIPE_HOST_DEVICE inline float tanh(float x) {
  const std::int32_t sign = detail::bits(x) & detail::sign_bit, magnitude = detail::bits(x) & ~detail::sign_bit;
  const std::int32_t large = detail::above(magnitude, 0x3f200000);  // 0.625
  const float absolute = detail::number(magnitude);
  const float outer = 1.0F - 2.0F / (exp(2.0F * absolute) + 1.0F);
  const float inner = detail::number(magnitude & ~large), z = inner * inner;
  float p = -5.6607891643e-3F;
  p = detail::multiply_add(p, z, 2.0602007753e-2F);
  p = detail::multiply_add(p, z, -5.3729229987e-2F);
  p = detail::multiply_add(p, z, 1.3331328959e-1F);
  p = detail::multiply_add(p, z, -3.3333278316e-1F);
  p = detail::multiply_add(p * z, inner, inner);
  return detail::number((detail::bits(outer) & large) | (detail::bits(p) & ~large) | sign);
}
GPIPE_HOST_DEVICE inline double tanh(double x) { return std::tanh(x); }

/// The error function, to 2 units in the last place.
///
///     |x| <= 0.927:  x + x p(x^2),   else  1 - e^-q(|x|) with the sign of x, which from 4 on is 1
GPIPE_HOST_DEVICE inline float erf(float x) {
  const std::int32_t sign = detail::bits(x) & detail::sign_bit, magnitude = detail::bits(x) & ~detail::sign_bit;
  const std::int32_t large = detail::above(magnitude, 0x3f6d8000);  // 0.927734375
  const float t = bounded(detail::number(magnitude), 4.0F), square = t * t;
  float q = detail::multiply_add(-1.72853470e-5F, t, 3.83197126e-4F);
  q = detail::multiply_add(q, square, detail::multiply_add(-3.88396438e-3F, t, 2.42546219e-2F));
  q = detail::multiply_add(q, t, -1.06777877e-1F);
  q = detail::multiply_add(q, t, -6.34846687e-1F);
  q = detail::multiply_add(q, t, -1.28717512e-1F);
  const float outer = 1.0F - exp(detail::multiply_add(q, t, -t));
  const float inner = detail::number(magnitude & ~large), z = inner * inner;
  float p = -5.96761703e-4F;
  p = detail::multiply_add(p, z, 4.99119423e-3F);
  p = detail::multiply_add(p, z, -2.67681349e-2F);
  p = detail::multiply_add(p, z, 1.12819925e-1F);
  p = detail::multiply_add(p, z, -3.76125336e-1F);
  p = detail::multiply_add(p, z, 1.28379166e-1F);
  p = detail::multiply_add(p, inner, inner);
  const std::int32_t nan = detail::above(magnitude, detail::infinity_bits) & detail::nan_bits;
  return detail::number((detail::bits(outer) & large) | (detail::bits(p) & ~large) | sign | nan);
}
GPIPE_HOST_DEVICE inline double erf(double x) { return std::erf(x); }

/// The logistic function 1 / (1 + e^-x), to 3 units in the last place (where the result is a normal number).
template <class T>
GPIPE_HOST_DEVICE inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// The square root of x >= 0, to 1 unit in the last place. std::sqrt may set errno, which prevents vectorization.
/// Newton steps refine an estimate of 1/sqrt(x) from the bits of x; the form of the last step has the least rounding.
GPIPE_HOST_DEVICE inline float sqrt(float x) {
#ifdef __FAST_MATH__  // std::sqrt sets no errno, and the steps below, in another order, would give NaN for 0
  return std::sqrt(x);
#else
  const std::int32_t magnitude = detail::bits(x) & ~detail::sign_bit;
  const std::int32_t tiny = detail::above(0x0d800000, magnitude), endless = detail::above(magnitude, 0x7f7fffff);
  const float y = x * detail::number(0x3f800000 + (tiny & 0x20000000));  // times 2^64 below 2^-100
  float inverse = detail::number(0x5f3759df - (detail::bits(y) >> 1));
  for (int i = 0; i < 2; ++i) inverse *= detail::multiply_add(-0.5F * y * inverse, inverse, 1.5F);
  float root = y * inverse;
  root = detail::multiply_add(0.5F * inverse, detail::multiply_add(-root, root, y), root);
  root *= detail::number(0x3f800000 - (tiny & 0x10000000));
  return detail::number((detail::bits(root) & ~endless) | (detail::bits(x) & endless));
#endif
}
GPIPE_HOST_DEVICE inline double sqrt(double x) { return std::sqrt(x); }

// The other functions that `dual` numbers have, of plain numbers: the standard library's. A function that is written
// for both, as the value of a `pointwise`, then compiles for both.

template <std::floating_point T>
GPIPE_HOST_DEVICE inline T log(T x) {
  return std::log(x);
}
template <std::floating_point T>
GPIPE_HOST_DEVICE inline T sin(T x) {
  return std::sin(x);
}
template <std::floating_point T>
GPIPE_HOST_DEVICE inline T cos(T x) {
  return std::cos(x);
}
template <std::floating_point T>
GPIPE_HOST_DEVICE constexpr T abs(T x) {
  return x < 0 ? -x : x > 0 ? x : x * x;  // 0, or NaN
}

namespace detail {

/// The type of two plain numbers, of which one at least is not whole: max(x, 0), pow(x, 3).
template <class A, class B>
struct number_pair {};
template <class A, class B>
requires(std::floating_point<A>&& std::is_arithmetic_v<B>) struct number_pair<A, B> {
  using type = std::conditional_t<std::floating_point<B>, std::common_type_t<A, B>, A>;
};
template <std::integral A, std::floating_point B>
struct number_pair<A, B> {
  using type = B;
};
template <class A, class B>
using number_of = typename number_pair<A, B>::type;

}  // namespace detail

/// The larger and the smaller of two numbers. NaN stays NaN.
template <class A, class B>
GPIPE_HOST_DEVICE constexpr auto(max)(A x, B y) -> detail::number_of<A, B> {
  using T = detail::number_of<A, B>;
  const T a = static_cast<T>(x), b = static_cast<T>(y);
  return a > b ? a : a <= b ? b : a + b;  // a + b: NaN
}
template <class A, class B>
GPIPE_HOST_DEVICE constexpr auto(min)(A x, B y) -> detail::number_of<A, B> {
  using T = detail::number_of<A, B>;
  const T a = static_cast<T>(x), b = static_cast<T>(y);
  return a < b ? a : a >= b ? b : a + b;  // a + b: NaN
}
template <class A, class B>
GPIPE_HOST_DEVICE inline detail::number_of<A, B> pow(A x, B y) {
  using T = detail::number_of<A, B>;
  return std::pow(static_cast<T>(x), static_cast<T>(y));
}

}  // namespace gpipe::math
