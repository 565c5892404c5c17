#pragma once

#include <cmath>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

/// Elementary functions of double. The last bit of the standard library's results depends on the library and the
/// processor, and a compiler evaluates calls with constant arguments by other code. These functions have the same bits
/// on every target with a fused multiply-add, with every compiler and at every -O, -march and -ffp-contract: they
/// consist of exactly rounded operations and integer operations, and each product that is added to is an explicit
/// `multiply_add`. A target without a fused operation gives other bits. The functions up to `erf` have no table and no
/// branch, so loops over them vectorize. They follow IEEE 754 (so not under -ffast-math), without errno and
/// floating-point exceptions. Errors are in units in the last place (ulp); a correctly rounded function has 0.5. A GPU
/// computes them by CUDA's functions.
namespace gpipe::math {

namespace detail {

using gpipe::detail::multiply_add, gpipe::detail::rounded_product;

// The builtin, because nvcc does not compile std::bit_cast for the device.
GPIPE_HOST_DEVICE inline std::uint64_t bits(double x) { return __builtin_bit_cast(std::uint64_t, x); }
GPIPE_HOST_DEVICE inline double number(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }

/// The bits of a double.
struct double_format {
  static constexpr std::uint64_t sign = std::uint64_t{1} << 63, infinity = std::uint64_t{0x7ff} << 52,
                                 nan = std::uint64_t{0xfff} << 51, one = std::uint64_t{0x3ff} << 52;
};

// All ones if the magnitude is above the limit. Both are given as bits, which have the same order as the numbers.
GPIPE_HOST_DEVICE inline std::uint64_t above(std::uint64_t magnitude, std::uint64_t limit) {
  return 0 - ((limit - magnitude) >> 63);
}

/// The rounding error of a product p of a and b: a b - p.
GPIPE_HOST_DEVICE inline double product_error(double a, double b, double p) {
#if GPIPE_HAS_FMA
  return multiply_add(a, b, -p);
#else
  // Upper halves of 26 bits have exact products (Dekker, 1971).
  const double a1 = number(bits(a) & ~std::uint64_t{0x7ffffff}), a2 = a - a1;
  const double b1 = number(bits(b) & ~std::uint64_t{0x7ffffff}), b2 = b - b1;
  return ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
#endif
}

/// A number of twice the precision: the sum of two.
struct double_pair {
  double high, low;
};

/// a + b without an error, if |a| >= |b| or a is 0.
GPIPE_HOST_DEVICE inline double_pair sum_by_size(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
/// a + b without an error.
GPIPE_HOST_DEVICE inline double_pair exact_sum(double a, double b) {
  const double sum = a + b, added = sum - a;
  return {sum, (a - (sum - added)) + (b - added)};
}

/// log 2 as a sum, whose first number has 42 bits: its product with an exponent is exact.
inline constexpr double log2_high = 0x1.62e42fefa3800p-1, log2_low = 0x1.ef35793c76730p-45;

/// 1.5 * 2^52. Added to a number, it shifts the fraction out: the low bits of the sum are the rounded integer.
inline constexpr double round_to_integer = 6755399441055744.0;

/// 2^n e^(high + low) for |high| <= 0.35, |low| <= 2^-53 and n from -1200 to 1200, modulo 2^64.
///
///     e^r = 1 + r + r^2 p(r)
GPIPE_HOST_DEVICE inline double scaled_exp(std::uint64_t n, double high, double low) {
  const double square = high * high;
  const double p0 = multiply_add(high, 0.16666666666666699, 0.50000000000000122);
  const double p2 = multiply_add(high, 0.0083333333333072031, 0.041666666666515417);
  const double p4 = multiply_add(high, 0.00019841269917383477, 0.0013888888947016479);
  const double p6 = multiply_add(high, 2.7557216303461223e-06, 2.4801489941771407e-05);
  const double p8 = multiply_add(high, 2.5117859655248722e-08, 2.7631280459492436e-07);
  const double upper = multiply_add(square, multiply_add(square, p8, p6), p4);
  double p = multiply_add(square * square, upper, multiply_add(square, p2, p0));
  const double_pair first = sum_by_size(1.0, high);
  p = first.high + multiply_add(square, p, multiply_add(low, first.high, first.low));
  // 2^n as two factors. Both are normal numbers, so that denormal and infinite results are correct.
  const std::uint64_t half = ((n + 4096) >> 1) - 2048;
  return p * number((half + 1023) << 52) * number((n - half + 1023) << 52);
}

/// `x` with the magnitude clamped to a limit that is given as bits.
GPIPE_HOST_DEVICE inline double clamped(double x, std::uint64_t limit) {
  const std::uint64_t magnitude = bits(x) & ~double_format::sign, large = above(magnitude, limit);
  return number((bits(x) & double_format::sign) | (magnitude & ~large) | (limit & large));
}

/// `y`, or NaN where x is NaN. No compiler fuses the result with a sum it is added to.
GPIPE_HOST_DEVICE inline double or_nan(double x, double y) {
  const std::uint64_t nan = above(bits(x) & ~double_format::sign, double_format::infinity) & double_format::nan;
  return number(bits(y) | nan);
}

/// A positive x as 2^exponent (1 + fraction), with 1 + fraction from sqrt(1/2) to sqrt(2).
struct scaled_number {
  double exponent, fraction;
};
GPIPE_HOST_DEVICE inline scaled_number scaled(double x) {
  constexpr std::uint64_t root_half = 0x3fe6a09e667f3bcd, two_to_54 = std::uint64_t{54} << 52;
  const std::uint64_t tiny = above(std::uint64_t{1} << 52, bits(x) & ~double_format::sign);
  const std::uint64_t y = bits(x * number(double_format::one + (tiny & two_to_54)));
  const std::uint64_t shifted = y + (double_format::one - root_half);
  // 2^52 and an integer in the low bits are a number.
  const double exponent = number((std::uint64_t{0x433} << 52) | (shifted >> 52)) - (4503599627370496.0 + 1023.0);
  const double fraction = number((shifted & ((std::uint64_t{1} << 52) - 1)) + root_half) - 1.0;
  return {exponent - number(tiny & bits(54.0)), fraction};
}

/// log x = exponent log 2 + high + low, for a positive x.
///
///     log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + z p(z)),  s = f / (2 + f),  z = s^2
struct split_log {
  double exponent, high, low;
};
GPIPE_HOST_DEVICE inline split_log logarithm(double x) {
  const scaled_number y = scaled(x);
  const double f = y.fraction, half_square = rounded_product(0.5 * f, f),
               error = product_error(0.5 * f, f, half_square);
  const double_pair first = sum_by_size(f, -half_square);
  const double s = f / (2.0 + f), z = s * s;
  const double p0 = multiply_add(z, 0.399999999994128, 0.66666666666667351);
  const double p2 = multiply_add(z, 0.22222198513788158, 0.28571428742888183);
  const double p4 = multiply_add(z, 0.15313951696346279, 0.18183567810346132);
  const double upper = multiply_add(z * z, 0.1479703198737839, p4);
  const double p = multiply_add(z * z, multiply_add(z * z, upper, p2), p0);
  return {y.exponent, first.high, multiply_add(s, multiply_add(p, z, half_square), first.low - error)};
}

/// A logarithm y of x, with the limits: -infinity for 0, infinity for infinity, NaN for NaN and below 0.
GPIPE_HOST_DEVICE inline double with_log_limits(double x, double y) {
  const std::uint64_t magnitude = bits(x) & ~double_format::sign, zero = above(std::uint64_t{1}, magnitude);
  const std::uint64_t nan = above(magnitude, double_format::infinity),
                      endless = ~(nan | above(double_format::infinity, magnitude));
  const std::uint64_t negative = (0 - (bits(x) >> 63)) & ~zero;
  const std::uint64_t limit = double_format::infinity | (zero & double_format::sign);
  return number((bits(y) & ~(zero | endless)) | (limit & (zero | endless)) | ((nan | negative) & double_format::nan));
}

/// The bodies of long, rarely called functions below. `power` computes x^y to 0.8 ulp, and `rough_power` to 2^-44 of
/// the result where that is a normal float.
double power(double x, double y);
double rough_power(double x, double y);
double sine(double x);
double cosine(double x);

}  // namespace detail

/// The exponential function, to 0.8 ulp.
///
///     e^x = 2^n e^r,  n = round(x / log 2),  r = x - n log 2,  |r| <= log(2) / 2
GPIPE_HOST_DEVICE inline double exp(double x) {
#ifdef __CUDA_ARCH__
  return ::exp(x);
#else
  using namespace detail;
  const double y = clamped(x, 0x4089000000000000);  // 800: beyond, the result is 0 or infinite
  const double shifted = multiply_add(y, 1.4426950408889634, round_to_integer);
  const double n = shifted - round_to_integer, first = multiply_add(n, -log2_high, y);
  const double r = multiply_add(n, -log2_low, first), low = multiply_add(n, -log2_low, first - r);
  return or_nan(x, scaled_exp(bits(shifted) - bits(round_to_integer), r, low));
#endif
}

/// 2^x, to 0.8 ulp: 2^n e^(r log 2), n = round(x), |r| <= 1/2.
GPIPE_HOST_DEVICE inline double exp2(double x) {
#ifdef __CUDA_ARCH__
  return ::exp2(x);
#else
  using namespace detail;
  const double y = clamped(x, 0x4091000000000000);  // 1088: beyond, the result is 0 or infinite
  constexpr double log_of_2 = 0x1.62e42fefa39efp-1, log_of_2_low = 0x1.abc9e3b39803fp-56;
  const double shifted = y + round_to_integer, r = y - (shifted - round_to_integer),
               high = rounded_product(r, log_of_2);
  const double low = multiply_add(r, log_of_2_low, product_error(r, log_of_2, high));
  return or_nan(x, scaled_exp(bits(shifted) - bits(round_to_integer), high, low));
#endif
}

/// The natural logarithm, to 0.7 ulp: NaN below 0 and -infinity for 0.
GPIPE_HOST_DEVICE inline double log(double x) {
#ifdef __CUDA_ARCH__
  return ::log(x);
#else
  using namespace detail;
  const split_log y = logarithm(x);
  const double_pair sum = sum_by_size(rounded_product(y.exponent, log2_high), y.high);
  return with_log_limits(x, sum.high + (sum.low + multiply_add(y.exponent, log2_low, y.low)));
#endif
}

/// log(1 + x), to 0.7 ulp. The error of the sum u = 1 + x is added as (1 + x - u) / u.
GPIPE_HOST_DEVICE inline double log1p(double x) {
#ifdef __CUDA_ARCH__
  return ::log1p(x);
#else
  using namespace detail;
  const double_pair u = exact_sum(1.0, x);
  const split_log y = logarithm(u.high);
  const double_pair sum = sum_by_size(rounded_product(y.exponent, log2_high), y.high);
  const double low = multiply_add(y.exponent, log2_low, y.low) + u.low / u.high;
  const double result = with_log_limits(u.high, sum.high + (sum.low + low));
  const std::uint64_t tiny = above(0x3c90000000000000, bits(x) & ~double_format::sign);  // below 2^-54 it is x
  return number((bits(result) & ~tiny) | (bits(x) & tiny));
#endif
}

/// The logarithm of base 2, to 0.7 ulp; exact for powers of two.
GPIPE_HOST_DEVICE inline double log2(double x) {
#ifdef __CUDA_ARCH__
  return ::log2(x);
#else
  using namespace detail;
  constexpr double inverse = 0x1.71547652b82fep+0, inverse_low = 0x1.777d0ffda0d24p-56;
  const split_log y = logarithm(x);
  const double high = rounded_product(y.high, inverse), error = product_error(y.high, inverse, high);
  const double low = multiply_add(y.low, inverse, multiply_add(y.high, inverse_low, error));
  const double_pair sum = sum_by_size(y.exponent, high);
  return with_log_limits(x, sum.high + (sum.low + low));
#endif
}

/// The hyperbolic tangent, to 1.4 ulp.
///
///     |x| <= 0.625:  x + x^3 p(x^2),   else  1 - 2 / (e^2|x| + 1) with the sign of x
GPIPE_HOST_DEVICE inline double tanh(double x) {
#ifdef __CUDA_ARCH__
  return ::tanh(x);
#else
  using namespace detail;
  const std::uint64_t sign = bits(x) & double_format::sign, magnitude = bits(x) & ~double_format::sign;
  const std::uint64_t large = above(magnitude, 0x3fe4000000000000);  // 0.625
  const double outer = 1.0 - 2.0 / (exp(2.0 * number(magnitude)) + 1.0);
  const double inner = number(magnitude & ~large), z = inner * inner;
  double p = 6.0424682281732798e-06;
  p = multiply_add(p, z, -3.0187220588601717e-05);
  p = multiply_add(p, z, 9.1558412230651693e-05);
  p = multiply_add(p, z, -0.00023701173069446096);
  p = multiply_add(p, z, 0.00058945179928675154);
  p = multiply_add(p, z, -0.0014557259482024219);
  p = multiply_add(p, z, 0.003592113999911706);
  p = multiply_add(p, z, -0.0088632343125845912);
  p = multiply_add(p, z, 0.021869488468716003);
  p = multiply_add(p, z, -0.053968253966058935);
  p = multiply_add(p, z, 0.13333333333329742);
  p = multiply_add(p, z, -0.33333333333333315);
  p = multiply_add(p * z, inner, inner);
  return number((bits(outer) & large) | (bits(p) & ~large) | sign);
#endif
}

/// The error function, to 1.2 ulp (1.4 without a fused operation).
///
///     |x| <= 0.9375:  x + x p(x^2),   else  1 - e^(-x^2) q((|x| - 3) / (|x| + 3)) with the sign of x
GPIPE_HOST_DEVICE inline double erf(double x) {
#ifdef __CUDA_ARCH__
  return ::erf(x);
#else
  using namespace detail;
  const std::uint64_t sign = bits(x) & double_format::sign, magnitude = bits(x) & ~double_format::sign;
  const std::uint64_t large = above(magnitude, 0x3fee000000000000);  // 0.9375
  const double t = clamped(number(magnitude), 0x4018000000000000);   // 6, from where the result is 1
  const double u = (t - 3.0) / (t + 3.0);
  double q = -5.7900550581281291e-06;
  q = multiply_add(q, u, -3.8395229991614372e-06);
  q = multiply_add(q, u, 7.5391405084031826e-05);
  q = multiply_add(q, u, 5.3363023971855178e-05);
  q = multiply_add(q, u, -0.00059333462324711228);
  q = multiply_add(q, u, 0.00070888508701623366);
  q = multiply_add(q, u, 0.0042693646760794063);
  q = multiply_add(q, u, -0.024392471281135395);
  q = multiply_add(q, u, 0.071665838832123241);
  q = multiply_add(q, u, -0.15011593653370892);
  q = multiply_add(q, u, 0.24560380170211812);
  q = multiply_add(q, u, -0.32623356004348564);
  q = multiply_add(q, u, 0.17900115118138624);
  const double outer = multiply_add(-exp(-t * t), q, 1.0);
  const double inner = number(magnitude & ~large), z = inner * inner;
  double p = -8.2198539920749061e-10;
  p = multiply_add(p, z, 1.3929307426496166e-08);
  p = multiply_add(p, z, -1.6253040462677222e-07);
  p = multiply_add(p, z, 1.6452780535473847e-06);
  p = multiply_add(p, z, -1.4925136102531198e-05);
  p = multiply_add(p, z, 0.00012055313985390962);
  p = multiply_add(p, z, -0.00085483265598533368);
  p = multiply_add(p, z, 0.0052239776182488769);
  p = multiply_add(p, z, -0.02686617064447094);
  p = multiply_add(p, z, 0.11283791670951986);
  p = multiply_add(p, z, -0.37612638903183693);
  p = multiply_add(p, z, 0.12837916709551256);
  p = multiply_add(p, inner, inner);
  return or_nan(x, number((bits(outer) & large) | (bits(p) & ~large) | sign));
#endif
}

/// The sine of an angle in radians, to 0.8 ulp for every finite x. NaN for infinities.
GPIPE_HOST_DEVICE inline double sin(double x) {
#ifdef __CUDA_ARCH__
  return ::sin(x);
#else
  return detail::sine(x);
#endif
}

/// The cosine of an angle in radians, to 0.8 ulp for every finite x. NaN for infinities.
GPIPE_HOST_DEVICE inline double cos(double x) {
#ifdef __CUDA_ARCH__
  return ::cos(x);
#else
  return detail::cosine(x);
#endif
}

}  // namespace gpipe::math

#if !GPIPE_COMPILED
#include <gpipe/core/numbers/double_math-inl.hpp>
#endif
