#pragma once

#include <cstdint>

#include <gpipe/core/numbers/double_math.hpp>

namespace gpipe::math::detail {

/// An angle as quadrant pi / 2 + high + low, with |high| <= pi / 4.
struct reduced_angle {
  std::uint64_t quadrant;  ///< modulo 4
  double high, low;
};

/// For magnitudes below 2^19. pi / 2 is a sum of four numbers; three have 33 bits, so their products with n are exact.
inline reduced_angle reduce(double x) {
  const double shifted = multiply_add(x, 0.63661977236758138, round_to_integer), n = shifted - round_to_integer;
  const double first = multiply_add(n, -0x1.921fb54400000p+0, x);
  const double_pair second = exact_sum(first, rounded_product(n, -0x1.0b4611a600000p-34));
  const double_pair third = exact_sum(second.high, rounded_product(n, -0x1.3198a2e000000p-69));
  const double_pair r = sum_by_size(third.high, multiply_add(n, -0x1.b839a252049c1p-104, second.low + third.low));
  return {bits(shifted), r.high, r.low};
}

/// For a larger finite x = mantissa 2^e, by 224 bits of 2 / pi (Payne, Hanek, 1983). Bits of 2 / pi above them only add
/// multiples of 4 to the product, and bits below change it by less than 2^-138.
///
///     2 / pi =  words before  |  seven words  |  ...       mantissa * seven words =  ... | quadrant | fraction
GPIPE_COLD inline reduced_angle reduce_large(double x) {
  static constexpr std::uint32_t two_over_pi[] = {
      0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561,
      0xb7246e3a, 0x424dd2e0, 0x06492eea, 0x09d1921c, 0xfe1deb1c, 0xb129a73e, 0xe88235f5, 0x2ebb4484,
      0xe99c7026, 0xb45f7e41, 0x3991d639, 0x835339f4, 0x9c845f8b, 0xbdf9283b, 0x1ff897ff, 0xde05980f,
      0xef2f118b, 0x5a0a6d1f, 0x6d367ecf, 0x27cb09b7, 0x4f463f66, 0x9e5fea2d, 0x7527bac7, 0xebe5f17b,
      0x3d0739f7, 0x8a5292ea, 0x6bfb5fb1, 0x1f8d5d08, 0x56033046};
  constexpr int words = 7;
  const std::uint64_t magnitude = bits(x) & ~double_format::sign;
  const std::uint64_t mantissa = (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
  const int e = static_cast<int>(magnitude >> 52) - 1075, first = e > 2 ? (e - 2) / 32 : 0;
  std::uint32_t digits[words + 5] = {};  // of the product, the lowest first
  const std::uint64_t factors[] = {mantissa & 0xffffffff, mantissa >> 32};
  for (int j = 0; j < 2; ++j) {
    std::uint64_t carry = 0;
    for (int i = 0; i < words; ++i) {
      carry += factors[j] * two_over_pi[first + words - 1 - i] + digits[i + j];
      digits[i + j] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    digits[words + j] = static_cast<std::uint32_t>(carry);
  }
  const auto bits_from = [&digits](int position) {  // 64 bits
    const int i = position / 32, shift = position % 32;
    const std::uint64_t low = digits[i] | std::uint64_t{digits[i + 1]} << 32;
    return low >> shift | (shift > 0 ? std::uint64_t{digits[i + 2]} << (64 - shift) : 0);
  };
  const int point = 32 * (first + words) - e;
  std::uint64_t quadrant = bits_from(point), high = bits_from(point - 64), low = bits_from(point - 128);
  const bool negative = high >> 63 != 0;  // a fraction of 1/2 or more: from the next quadrant back
  if (negative) {
    ++quadrant;
    low = 0 - low;
    high = ~high + (low == 0 ? 1 : 0);
  }
  int zeros = 0;
  for (; zeros < 127 && high >> 63 == 0; ++zeros) {
    high = high << 1 | low >> 63;
    low <<= 1;
  }
  // The fraction in quarters of a turn, of 53 bits and of 63 more.
  const double unit = number(static_cast<std::uint64_t>(1023 - 53 - zeros) << 52);
  const double f = static_cast<double>(static_cast<std::int64_t>(high >> 11)) * unit;
  const double f_low =
      static_cast<double>(static_cast<std::int64_t>((high & 0x7ff) << 52 | low >> 12)) * (unit * 0x1p-63);
  constexpr double half_pi = 1.5707963267948966, half_pi_low = 6.123233995736766e-17;
  const double product_high = rounded_product(f, half_pi), error = product_error(f, half_pi, product_high);
  const double_pair r = sum_by_size(product_high, multiply_add(f_low, half_pi, multiply_add(f, half_pi_low, error)));
  const bool turned = negative != (bits(x) >> 63 != 0);
  return {bits(x) >> 63 != 0 ? 0 - quadrant : quadrant, turned ? -r.high : r.high, turned ? -r.low : r.low};
}

inline reduced_angle reduced(double x) {
  const std::uint64_t magnitude = bits(x) & ~double_format::sign;
  if (magnitude <= 0x3fe921fb54442d18) return {0, x, 0};  // pi / 4
  return magnitude < 0x4120000000000000 ? reduce(x) : reduce_large(x);
}

/// sin r = r + r^3 p(r^2) and cos r = 1 - r^2 / 2 + r^4 q(r^2), of the sum of two numbers.
inline double sine_of(double r, double low) {
  const double z = r * r;
  double p = 1.5895904817802476e-10;
  p = multiply_add(p, z, -2.5050742309156439e-08);
  p = multiply_add(p, z, 2.7557313587626551e-06);
  p = multiply_add(p, z, -0.00019841269829495511);
  p = multiply_add(p, z, 0.0083333333333220055);
  p = multiply_add(p, z, -0.1666666666666663);
  return r + multiply_add(r * z, p, low * multiply_add(-0.5, z, 1.0));
}
inline double cosine_of(double r, double low) {
  const double z = rounded_product(r, r), error = product_error(r, r, z);
  double q = -1.1358310481156335e-11;
  q = multiply_add(q, z, 2.0875696572433778e-09);
  q = multiply_add(q, z, -2.7557314148622755e-07);
  q = multiply_add(q, z, 2.4801587288748186e-05);
  q = multiply_add(q, z, -0.0013888888888872895);
  q = multiply_add(q, z, 0.041666666666666595);
  const double_pair first = sum_by_size(1.0, rounded_product(-0.5, z));
  return first.high + multiply_add(z * z, q, multiply_add(-r, low, multiply_add(-0.5, error, first.low)));
}

/// The sine of an angle that is `quarters` quarters of a turn further.
inline double sine_from(double x, std::uint64_t quarters) {
  if ((bits(x) & ~double_format::sign) >= double_format::infinity) return number(double_format::nan);
  const reduced_angle angle = reduced(x);
  const std::uint64_t quadrant = angle.quadrant + quarters;
  const double y = quadrant & 1 ? cosine_of(angle.high, angle.low) : sine_of(angle.high, angle.low);
  return quadrant & 2 ? -y : y;
}

GPIPE_INLINE double sine(double x) {
  const bool below_limit = (bits(x) & ~double_format::sign) < 0x3e40000000000000;  // 2^-27
  return below_limit ? x : sine_from(x, 0);
}
GPIPE_INLINE double cosine(double x) { return sine_from(x, 1); }

/// log x to 2^-65 of its size, for a positive x. The first three terms of atanh have twice the precision.
///
///     log(1 + f) = 2 atanh s = 2 (s + s z (1/3 + z q(z))),  s = f / (2 + f),  z = s^2
inline double_pair long_log(double x) {
  const scaled_number y = scaled(x);
  const double f = y.fraction;
  const double_pair u = sum_by_size(2.0, f);
  const double s = f / u.high, su = rounded_product(s, u.high);
  const double s_low = multiply_add(-s, u.low, (f - su) - product_error(s, u.high, su)) / u.high;
  const double z = rounded_product(s, s), z_low = multiply_add(2.0 * s, s_low, product_error(s, s, z));
  double q = 0.059952166227518817;
  q = multiply_add(q, z, 0.058373241152624884);
  q = multiply_add(q, z, 0.066681628980993612);
  q = multiply_add(q, z, 0.076922783267610664);
  q = multiply_add(q, z, 0.090909094367494683);
  q = multiply_add(q, z, 0.11111111108755267);
  q = multiply_add(q, z, 0.14285714285722609);
  q = multiply_add(q, z, 0.1999999999999999);
  const double_pair b = sum_by_size(1.0 / 3.0, rounded_product(q, z));
  const double b_low = b.low + 1.8503717077085941e-17;  // 1/3 in twice the precision
  const double a = rounded_product(z, b.high),
               a_low = multiply_add(z, b_low, multiply_add(z_low, b.high, product_error(z, b.high, a)));
  const double d = rounded_product(s, a),
               d_low = multiply_add(s, a_low, multiply_add(s_low, a, product_error(s, a, d)));
  const double_pair half = sum_by_size(s, d);
  const double half_low = half.low + (s_low + d_low);
  const double_pair sum = sum_by_size(rounded_product(y.exponent, log2_high), rounded_product(2.0, half.high));
  return sum_by_size(sum.high, multiply_add(2.0, half_low, multiply_add(y.exponent, log2_low, sum.low)));
}

/// 1 for an odd integer, 0 for an even one, -1 for any other number.
inline int parity(double y) {
  const double magnitude = number(bits(y) & ~double_format::sign);
  if (!(magnitude < 9007199254740992.0)) return 0;
  const auto whole = static_cast<std::int64_t>(magnitude);
  return static_cast<double>(whole) == magnitude ? static_cast<int>(whole & 1) : -1;
}

/// x^y = e^(y log x), with the logarithm of |x| that a function gives.
template <class Logarithm>
double power_by(Logarithm&& log_of, double x, double y) {
  const double size = number(bits(x) & ~double_format::sign), endless = number(double_format::infinity);
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return number(double_format::nan);
  if (y == endless || y == -endless) return size == 1 ? 1 : (size > 1) == (y > 0) ? endless : 0;
  const int odd = parity(y);
  const std::uint64_t sign = odd == 1 ? bits(x) & double_format::sign : 0;
  if (size == 0 || size == endless)
    return number(((size == 0) == (y < 0) ? double_format::infinity : std::uint64_t{0}) | sign);
  if (x < 0 && odd < 0) return number(double_format::nan);
  const double_pair log = log_of(size);
  double high = rounded_product(y, log.high), low = multiply_add(y, log.low, product_error(y, log.high, high));
  if (!(high < 800 && high > -800)) {  // the result is 0 or infinite
    high = (log.high > 0) == (y > 0) ? 800.0 : -800.0;
    low = 0;
  }
  const double shifted = multiply_add(high, 1.4426950408889634, round_to_integer), n = shifted - round_to_integer;
  const double_pair r = exact_sum(multiply_add(n, -log2_high, high), multiply_add(n, -log2_low, low));
  return number(bits(scaled_exp(bits(shifted) - bits(round_to_integer), r.high, r.low)) | sign);
}
GPIPE_INLINE double power(double x, double y) { return power_by(long_log, x, y); }
GPIPE_INLINE double rough_power(double x, double y) {
  return power_by([](double size) { return double_pair{math::log(size), 0}; }, x, y);
}

}  // namespace gpipe::math::detail
