#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

/// Elementary functions for kernels. The float versions are straight-line code of additions, multiplications and
/// integer operations: no table and no branch. They compare no floating-point values either, because under trapping
/// math (the default) a comparison stops g++ from vectorizing so long a loop. Each product that is added to is an
/// explicit `multiply_add`, so a number has the same bits in a vector and alone, with every compiler and on every
/// target with a fused operation. They follow IEEE 754 (so not under -ffast-math): NaN gives NaN; infinities and
/// denormal numbers are correct. Errors are against the exact value, over all floats. The double versions are in
/// double_math.hpp.
namespace gpipe::math {

namespace detail {

inline constexpr std::int32_t sign_bit = std::int32_t(0x80000000), infinity_bits = 0x7f800000, nan_bits = 0x7fc00000;

GPIPE_HOST_DEVICE inline std::int32_t bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
GPIPE_HOST_DEVICE inline float number(std::int32_t bits) { return __builtin_bit_cast(float, bits); }

// All ones if the magnitude is above the limit. Both are given as bits, which have the same order as the numbers.
GPIPE_HOST_DEVICE inline std::int32_t above(std::int32_t magnitude, std::int32_t limit) {
  return (limit - magnitude) >> 31;
}

}  // namespace detail

/// a * b + c with the same bits wherever a program computes it. Use it in your own kernels and optimizers.
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

/// The exponential function, to 1.02 units in the last place; a GPU computes it by its special function units.
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

namespace detail {

/// A positive x as 2^exponent (1 + fraction), with 1 + fraction from sqrt(1/2) to sqrt(2).
struct scaled_float {
  float exponent, fraction;
};
GPIPE_HOST_DEVICE inline scaled_float scaled_normal(std::int32_t magnitude) {
  constexpr std::int32_t one_bits = 0x3f800000, root_half_bits = 0x3f3504f3;
  const std::uint32_t shifted = static_cast<std::uint32_t>(magnitude) + (one_bits - root_half_bits);
  const float fraction = number(static_cast<std::int32_t>(shifted & 0x007fffff) + root_half_bits) - 1.0F;
  return {static_cast<float>(static_cast<std::int32_t>(shifted >> 23) - 127), fraction};
}
GPIPE_HOST_DEVICE inline scaled_float scaled(float x) {
  const std::int32_t tiny = above(0x00800000, bits(x) & ~sign_bit);  // denormal numbers times 2^32
  const scaled_float y = scaled_normal(bits(x * number(0x3f800000 + (tiny & 0x10000000))) & ~sign_bit);
  return {y.exponent - number(tiny & 0x42000000), y.fraction};  // 32
}

/// The p of log(1 + f) = f - f^2 / 2 + f^3 p(f).
GPIPE_HOST_DEVICE inline float log_tail(float f, float square) {
  const float p0 = multiply_add(f, -2.50008196e-1F, 3.33333313e-1F),
              p2 = multiply_add(f, -1.66233569e-1F, 2.00012267e-1F);
  const float p4 = multiply_add(f, -1.3160181e-1F, 1.42017573e-1F),
              p6 = multiply_add(f, -7.63450265e-2F, 1.27615795e-1F);
  return multiply_add(square * square, multiply_add(square, p6, p4), multiply_add(square, p2, p0));
}

/// A logarithm y of x, with the limits: -infinity for 0, infinity for infinity, NaN for NaN and below 0.
GPIPE_HOST_DEVICE inline float with_log_limits(float x, float y) {
  const std::int32_t magnitude = bits(x) & ~sign_bit, zero = above(1, magnitude);
  const std::int32_t nan = above(magnitude, infinity_bits), endless = ~(nan | above(infinity_bits, magnitude));
  const std::int32_t negative = (bits(x) >> 31) & ~zero, limit = infinity_bits | (zero & sign_bit);
  return number((bits(y) & ~(zero | endless)) | (limit & (zero | endless)) | ((nan | negative) & nan_bits));
}

/// log 2 as a sum, whose first number has 16 bits: its product with an exponent is exact.
inline constexpr float float_log2_high = 0.693145752F, float_log2_low = 1.42860677e-6F;

GPIPE_HOST_DEVICE inline float logarithm(scaled_float y) {
  const float f = y.fraction, square = f * f;
  const float low = multiply_add(f * square, log_tail(f, square), y.exponent * float_log2_low);
  return multiply_add(y.exponent, float_log2_high, f + multiply_add(-0.5F, square, low));
}

}  // namespace detail

/// The natural logarithm, to 1 unit in the last place: NaN below 0 and -infinity for 0.
///
///     x = 2^n (1 + f),  log x = n log 2 + log(1 + f),  log(1 + f) = f - f^2 / 2 + f^3 p(f)
GPIPE_HOST_DEVICE inline float log(float x) {
#ifdef __CUDA_ARCH__
  return ::logf(x);
#else
  return detail::with_log_limits(x, detail::logarithm(detail::scaled(x)));
#endif
}

/// `log` of a single number, with the same bits and half the work. Its branch would keep loops from vectorizing.
GPIPE_HOST_DEVICE inline float log_alone(float x) {
#ifndef __CUDA_ARCH__
  const std::int32_t bits = detail::bits(x);
  if (bits >= 0x00800000 && bits < detail::infinity_bits) return detail::logarithm(detail::scaled_normal(bits));
#endif
  return log(x);
}
GPIPE_HOST_DEVICE inline double log_alone(double x) { return log(x); }

/// log(1 + x), to 1 unit in the last place. The error of the sum u = 1 + x is added as (1 + x - u) / u.
GPIPE_HOST_DEVICE inline float log1p(float x) {
#ifdef __CUDA_ARCH__
  return ::log1pf(x);
#else
  const float u = 1.0F + x, added = u - 1.0F, error = (1.0F - (u - added)) + (x - added);
  const detail::scaled_float y = detail::scaled(u);
  const float f = y.fraction, square = f * f;
  float low = detail::multiply_add(y.exponent, detail::float_log2_low, error / u);
  low = detail::multiply_add(f * square, detail::log_tail(f, square), low);
  low = detail::multiply_add(-0.5F, square, low);
  const float result = detail::with_log_limits(u, detail::multiply_add(y.exponent, detail::float_log2_high, f + low));
  const std::int32_t tiny = detail::above(0x33000000, detail::bits(x) & ~detail::sign_bit);  // below 2^-25 it is x
  return detail::number((detail::bits(result) & ~tiny) | (detail::bits(x) & tiny));
#endif
}

/// log(1 + x) for 0 <= x <= 1, such as the exponential of a negative number, to 1.6 units in the last place (2.1
/// without a fused operation). NaN stays NaN.
///
///     log(1 + x) = x + x^2 p(x)
GPIPE_HOST_DEVICE inline float log1p_of_share(float x) {
#ifdef __CUDA_ARCH__
  return ::log1pf(x);
#else
  const float square = x * x, fourth = square * square;
  const float p0 = detail::multiply_add(x, 3.3330512e-1F, -4.99999315e-1F);
  const float p2 = detail::multiply_add(x, 1.96954027e-1F, -2.49585882e-1F);
  const float p4 = detail::multiply_add(x, 1.0680563e-1F, -1.53554007e-1F);
  const float p6 = detail::multiply_add(x, 2.02046223e-2F, -5.76645173e-2F);
  const float upper = detail::multiply_add(fourth, -3.31848091e-3F, detail::multiply_add(square, p6, p4));
  return detail::multiply_add(square, detail::multiply_add(fourth, upper, detail::multiply_add(square, p2, p0)), x);
#endif
}
GPIPE_HOST_DEVICE inline double log1p_of_share(double x) { return log1p(x); }

/// The logarithm of base 2, to 1.4 units in the last place (2.2 without a fused operation); exact for powers
/// of two.
///
///     x = 2^n (1 + f),  log2 x = n + f / log 2 + f^2 p(f)
GPIPE_HOST_DEVICE inline float log2(float x) {
#ifdef __CUDA_ARCH__
  return ::log2f(x);
#else
  const detail::scaled_float y = detail::scaled(x);
  const float f = y.fraction, square = f * f;
  const float p0 = detail::multiply_add(f, 4.80898231e-1F, -7.21347332e-1F);
  const float p2 = detail::multiply_add(f, 2.88567483e-1F, -3.60696584e-1F);
  const float p4 = detail::multiply_add(f, 2.04600468e-1F, -2.39618406e-1F);
  const float p6 = detail::multiply_add(f, 1.86171696e-1F, -1.91055939e-1F);
  const float upper = detail::multiply_add(square, detail::multiply_add(square, -1.09959111e-1F, p6), p4);
  const float p = detail::multiply_add(square * square, upper, detail::multiply_add(square, p2, p0));
  const float low = detail::multiply_add(square, p, f * 1.92596303e-8F);
  return detail::with_log_limits(x, y.exponent + detail::multiply_add(f, 1.44269502F, low));
#endif
}

/// The functions of double, rounded: 1/2 unit in the last place, and seldom 0.01 more.
GPIPE_HOST_DEVICE inline float sin(float x) {
#ifdef __CUDA_ARCH__
  return ::sinf(x);
#else
  return static_cast<float>(sin(static_cast<double>(x)));
#endif
}
GPIPE_HOST_DEVICE inline float cos(float x) {
#ifdef __CUDA_ARCH__
  return ::cosf(x);
#else
  return static_cast<float>(cos(static_cast<double>(x)));
#endif
}

template <std::floating_point T>
GPIPE_HOST_DEVICE constexpr T abs(T x) {
  return x < 0 ? -x : x > 0 ? x : x * x;  // 0, or NaN
}

namespace detail {

/// The common type of two plain numbers, at least one of them floating-point: max(x, 0), pow(x, 3).
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
/// x^y, to 1 unit in the last place, with the limits of std::pow.
template <class A, class B>
GPIPE_HOST_DEVICE inline detail::number_of<A, B> pow(A x, B y) {
  using T = detail::number_of<A, B>;
#ifdef __CUDA_ARCH__
  return std::pow(static_cast<T>(x), static_cast<T>(y));
#else
  if constexpr (sizeof(T) == sizeof(float))
    return static_cast<T>(detail::rough_power(static_cast<T>(x), static_cast<T>(y)));
  else return detail::power(static_cast<T>(x), static_cast<T>(y));
#endif
}

}  // namespace gpipe::math
