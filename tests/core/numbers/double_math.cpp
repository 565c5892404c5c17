// optimize: kernels

#include <gpipe/core/numbers/double_math.hpp>
#include <gpipe/core/numbers/math.hpp>

#include "support/function_bits.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace math = gpipe::math;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double smallest = std::numeric_limits<double>::denorm_min();
constexpr double largest = std::numeric_limits<double>::max();

/// The error of `y` in units in the last place of the exact result.
double error_of(double y, long double exact) {
  const auto rounded = static_cast<double>(exact);
  if (y == rounded || (std::isnan(y) && std::isnan(rounded))) return 0;
  const double magnitude = std::fabs(rounded);
  if (!(magnitude < infinity) || !(std::fabs(y) < infinity)) return infinity;
  const int exponent = magnitude < std::numeric_limits<double>::min() ? -1074 : std::ilogb(magnitude) - 52;
  return static_cast<double>(std::fabs(static_cast<long double>(y) - exact) / std::ldexp(1.0L, exponent));
}

/// The largest error over the arguments of `function_bits`, and over some near 0 and near 1.
template <class F, class G>
double worst_error(F ours, G exact, double limit) {
  double worst = 0;
  const auto compare = [&](double x) {
    const double error = error_of(ours(x), exact(static_cast<long double>(x)));
    if (!(error <= worst)) worst = error;
  };
  for (std::uint32_t i = 0; i < 1U << 16; i += 3) compare(function_argument(i, limit));
  for (int i = 1; i < 4000; ++i) {
    const double small = std::ldexp(1.0 + i * 0x1.9p-12, -i % 60);
    for (const double x : {small, -small, 1 + small, 1 - small / 2}) compare(x);
  }
  return worst;
}

#define GPIPE_OURS(name) [](double x) { return math::name(x); }
#define GPIPE_EXACT(name) [](long double x) { return std::name(x); }

}  // namespace

TEST_CASE("functions of double are within their stated error") {
  CHECK(worst_error(GPIPE_OURS(exp), GPIPE_EXACT(exp), 760) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(exp), GPIPE_EXACT(exp), 2) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(exp2), GPIPE_EXACT(exp2), 1090) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(exp2), GPIPE_EXACT(exp2), 2) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(log), GPIPE_EXACT(log), 2) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(log2), GPIPE_EXACT(log2), 2) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(log1p), GPIPE_EXACT(log1p), 2) <= 0.8);
  CHECK(worst_error(GPIPE_OURS(tanh), GPIPE_EXACT(tanh), 4) <= 1.4);
  CHECK(worst_error(GPIPE_OURS(erf), GPIPE_EXACT(erf), 6.5) <= (GPIPE_HAS_FMA ? 1.2 : 1.4));
  for (const double limit : {3.2, 1e3, 7e5, 1e12}) {
    CHECK(worst_error(GPIPE_OURS(sin), GPIPE_EXACT(sin), limit) <= 0.8);
    CHECK(worst_error(GPIPE_OURS(cos), GPIPE_EXACT(cos), limit) <= 0.8);
  }
  for (const double exponent : {0.1, -0.5, 2.0, 3.0, 1e3, -7.0, 1e-3, 1e18}) {
    const auto ours = [exponent](double x) { return math::pow(x, exponent); };
    const auto exact = [exponent](long double x) { return std::pow(x, static_cast<long double>(exponent)); };
    CHECK(worst_error(ours, exact, 2) <= 0.8);
  }
  const auto ours = [](double x) { return math::pow(0.999, x); };
  CHECK(worst_error(
            ours, [](long double x) { return std::pow(static_cast<long double>(0.999), x); }, 8e5) <= 0.8);
}

TEST_CASE("angles near multiples of a quarter turn have all digits") {
  constexpr long double quarter = 1.57079632679489661923L;
  for (int i = 1; i < 3000; ++i) {
    for (const long double turns : {static_cast<long double>(i), static_cast<long double>(i) * 1234567891}) {
      const auto x = static_cast<double>(turns * quarter);
      CHECK(error_of(math::sin(x), std::sin(static_cast<long double>(x))) <= 0.8);
      CHECK(error_of(math::cos(x), std::cos(static_cast<long double>(x))) <= 0.8);
    }
  }
  // The double that is nearest to a multiple of pi / 2, and the largest one.
  const double nearest = std::ldexp(6381956970095103.0, 797);
  CHECK(math::cos(nearest) == -4.6871659242546276548e-19);
  CHECK(math::sin(nearest) == 1);
  CHECK(math::sin(largest) == 0.004961954789184062);
  CHECK(math::cos(-largest) == -0.99998768942655991);
}

// The hashes of targets with a fused multiply-add: the same for every compiler, -O, -march, -ffp-contract and
// processor.
#if GPIPE_HAS_FMA
TEST_CASE("every build has the same bits") {
  CHECK(function_bits(GPIPE_OURS(exp), 750.0) == 0xba7208f7e533c7bc);
  CHECK(function_bits(GPIPE_OURS(exp2), 1080.0) == 0x5494b9a4ecc0f04c);
  CHECK(function_bits(GPIPE_OURS(log), 4.0) == 0x9d377d4a593c7303);
  CHECK(function_bits(GPIPE_OURS(log1p), 4.0) == 0xb79f0a34dbb6d953);
  CHECK(function_bits(GPIPE_OURS(log2), 4.0) == 0x33c12bd150c64822);
  CHECK(function_bits(GPIPE_OURS(tanh), 4.0) == 0xaa6a70af088b019f);
  CHECK(function_bits(GPIPE_OURS(erf), 6.0) == 0x01816bf0ae4cd4ff);
  CHECK(function_bits(GPIPE_OURS(sin), 1e4) == 0xcb4d4f7ab5b3e8ce);
  CHECK(function_bits(GPIPE_OURS(cos), 1e4) == 0x9523ed78380c7f35);
  CHECK(function_bits([](double x) { return math::pow(0.9, x); }, 1e3) == 0x4eb1d22c440ec207);
  CHECK(function_bits([](double x) { return math::pow(x, 1.7); }, 1e3) == 0x76c246f9d16f7ff5);
}
#endif

TEST_CASE("limits are exact") {
  CHECK(math::exp(0.0) == 1);
  CHECK(math::exp(-infinity) == 0);
  CHECK(math::exp(infinity) == infinity);
  CHECK(math::exp(710.0) == infinity);
  CHECK(math::exp(-746.0) == 0);
  CHECK(math::exp(-745.0) == smallest);
  CHECK(math::exp(largest) == infinity);
  CHECK(math::exp(-largest) == 0);
  CHECK(math::exp2(-infinity) == 0);
  CHECK(math::exp2(infinity) == infinity);
  for (int n = -1074; n < 1024; ++n) {
    CHECK(math::exp2(static_cast<double>(n)) == std::ldexp(1.0, n));
    CHECK(math::log2(std::ldexp(1.0, n)) == n);
  }
  CHECK(math::exp2(1024.0) == infinity);
  CHECK(math::exp2(-1076.0) == 0);
  for (const double zero : {0.0, -0.0}) {
    CHECK(math::log(zero) == -infinity);
    CHECK(math::log2(zero) == -infinity);
    CHECK(math::cos(zero) == 1);
    for (const double y : {math::log1p(zero), math::tanh(zero), math::erf(zero), math::sin(zero)}) {
      CHECK(y == 0);
      CHECK(std::signbit(y) == std::signbit(zero));
    }
  }
  CHECK(math::log(1.0) == 0);
  CHECK(math::log(infinity) == infinity);
  CHECK(math::log2(infinity) == infinity);
  CHECK(math::log1p(infinity) == infinity);
  CHECK(math::log1p(-1.0) == -infinity);
  CHECK(math::tanh(infinity) == 1);
  CHECK(math::tanh(-infinity) == -1);
  CHECK(math::erf(infinity) == 1);
  CHECK(math::erf(-infinity) == -1);
  for (const double x : {smallest, -smallest, 0x1p-1060, -0x1p-1060}) {
    CHECK(math::sin(x) == x);
    CHECK(math::tanh(x) == x);
    CHECK(math::log1p(x) == x);
    CHECK(math::cos(x) == 1);
    CHECK(math::exp(x) == 1);
    CHECK(math::exp2(x) == 1);
  }
}

TEST_CASE("NaN of either sign, and arguments without a result, give NaN") {
  for (const double x : {not_a_number, -not_a_number, std::bit_cast<double>(std::uint64_t{0x7ff0000000000001})})
    for (const double y : {math::exp(x), math::exp2(x), math::log(x), math::log1p(x), math::log2(x), math::tanh(x),
                           math::erf(x), math::sin(x), math::cos(x), math::pow(x, 2.0), math::pow(2.0, x)})
      CHECK(std::isnan(y));
  for (const double x : {-smallest, -1.0, -largest, -infinity}) {
    CHECK(std::isnan(math::log(x)));
    CHECK(std::isnan(math::log2(x)));
    CHECK(std::isnan(math::log1p(x - 1.5)));
    CHECK(std::isnan(math::pow(x, 0.5)) == (x != -infinity));
  }
  for (const double x : {infinity, -infinity}) {
    CHECK(std::isnan(math::sin(x)));
    CHECK(std::isnan(math::cos(x)));
  }
}

TEST_CASE("powers of limits are those of std::pow") {
  const double limits[] = {0.0,  -0.0,  1.0,   -1.0,   2.0,      -2.0,      3.0,          -3.0,    0.5,      -0.5,
                           1e18, -1e18, 1e300, -1e300, infinity, -infinity, not_a_number, largest, smallest, -smallest};
  for (const double x : limits)
    for (const double y : limits) {
      CAPTURE(x);
      CAPTURE(y);
      const double ours = math::pow(x, y), theirs = std::pow(x, y);
      CHECK(std::isnan(ours) == std::isnan(theirs));
      if (std::isnan(theirs)) continue;
      CHECK(error_of(ours, std::pow(static_cast<long double>(x), static_cast<long double>(y))) <= 0.8);
      CHECK(std::signbit(ours) == std::signbit(theirs));
    }
}

#undef GPIPE_OURS
#undef GPIPE_EXACT
