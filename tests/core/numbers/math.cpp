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

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// The largest error in units of the last place of the exact result, over a sweep of all floats but NaN.
template <class F, class G>
double worst_error(F ours, G exact, float min_result = 0) {
  double worst = 0;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4001) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) continue;
    const double want = exact(static_cast<double>(x));
    const float rounded = static_cast<float>(want), magnitude = std::fabs(rounded), got = ours(x);
    if (got == rounded || magnitude < min_result) continue;
    const double unit = std::isinf(rounded) ? 0x1p104 : double{std::nextafter(magnitude, infinity)} - double{magnitude};
    const double error = std::fabs(double{got} - want) / unit;
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace

TEST_CASE("float functions are within their stated error over all floats") {
  CHECK(worst_error([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }) <= 1.02);
  CHECK(worst_error([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }) <= 2);
  CHECK(worst_error([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }) <= 2);
  CHECK(worst_error([](float x) { return math::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); },
                    std::numeric_limits<float>::min()) <= 3);
  const auto of_magnitude = [](double x) { return std::sqrt(std::fabs(x)); };
  CHECK(worst_error([](float x) { return math::sqrt(std::fabs(x)); }, of_magnitude) <= 1);
  CHECK(worst_error([](float x) { return math::log(std::fabs(x)); }, [](double x) { return std::log(std::fabs(x)); }) <=
        1);
  CHECK(worst_error([](float x) { return math::log1p(std::fabs(x)); },
                    [](double x) { return std::log1p(std::fabs(x)); }) <= 1);
  CHECK(worst_error([](float x) { return math::log2(std::fabs(x)); },
                    [](double x) { return std::log2(std::fabs(x)); }) <= (GPIPE_HAS_FMA ? 1.4 : 2.2));
  const float worst = 0x1.672db6p+0F;
  CHECK(std::fabs(double{math::log2(worst)} - std::log2(double{worst})) <= (GPIPE_HAS_FMA ? 1.4 : 2.2) * 0x1p-25);
  // The logarithm of a number near 1 is as exact.
  for (float x = 0.5F; x < 2; x += 0x1.23p-14F) {
    CHECK(std::fabs(double{math::log(x)} - std::log(double{x})) <= 0x1p-23 * std::fabs(std::log(double{x})));
    CHECK(std::fabs(double{math::log2(x)} - std::log2(double{x})) <= 0x1.4p-22 * std::fabs(std::log2(double{x})));
    CHECK(std::fabs(double{math::log1p(x - 1)} - std::log(double{x})) <= 0x1p-23 * std::fabs(std::log(double{x})));
  }
}

// The hashes of targets with a fused multiply-add: the same for every compiler, -O, -march, -ffp-contract and
// processor.
#if GPIPE_HAS_FMA
TEST_CASE("every build has the same bits") {
  CHECK(function_bits([](float x) { return math::exp(x); }, 100.0F) == 0xe732a068410fd96c);
  CHECK(function_bits([](float x) { return math::tanh(x); }, 10.0F) == 0xcfbd5056efe03231);
  CHECK(function_bits([](float x) { return math::erf(x); }, 4.0F) == 0xfa49c8984838936d);
  CHECK(function_bits([](float x) { return math::sigmoid(x); }, 20.0F) == 0x2e9f7dd66fdf1c69);
  CHECK(function_bits([](float x) { return math::sqrt(x); }, 4.0F) == 0xb5227f1fbbb99d12);
  CHECK(function_bits([](float x) { return math::log(x); }, 4.0F) == 0x49192972a2af9a21);
  CHECK(function_bits([](float x) { return math::log1p(x); }, 4.0F) == 0x5277df73ab8b36d4);
  CHECK(function_bits([](float x) { return math::log1p_of_share(math::exp(-std::fabs(x))); }, 20.0F) ==
        0x9f420b6a65fe2a4d);
  CHECK(function_bits([](float x) { return math::log2(x); }, 4.0F) == 0x7f7aa172c9b2e52c);
  CHECK(function_bits([](float x) { return math::sin(x); }, 1e3F) == 0x02dca23d2a1a795a);
  CHECK(function_bits([](float x) { return math::cos(x); }, 1e3F) == 0x6dc2cf643f7233a9);
  CHECK(function_bits([](float x) { return math::pow(x, 2.5F); }, 1e3F) == 0x01393dcd4850d6f9);
}
#endif

TEST_CASE("the logarithm of a number alone has the bits of one in a loop") {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 40009) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float alone = math::log_alone(x), among_others = math::log(x);
    CHECK(
        (std::bit_cast<std::uint32_t>(alone) == std::bit_cast<std::uint32_t>(among_others) || std::isnan(x) || x < 0));
  }
}

TEST_CASE("log1p_of_share is log1p from 0 to 1") {
  for (float x = 1; x > 0x1p-100F; x *= 0.999F) {
    const double exact = std::log1p(double{x});
    CHECK(std::fabs(double{math::log1p_of_share(x)} - exact) <=
          std::ldexp(GPIPE_HAS_FMA ? 1.6 : 2.1, std::ilogb(exact) - 23));
  }
  CHECK(math::log1p_of_share(0.0F) == 0);
  CHECK(math::log1p_of_share(0x1p-149F) == 0x1p-149F);
  CHECK(std::isnan(math::log1p_of_share(not_a_number)));
  CHECK(math::log1p_of_share(0.3) == math::log1p(0.3));
}

TEST_CASE("limits are exact") {
  CHECK(math::exp(infinity) == infinity);
  CHECK(math::exp(-infinity) == 0);
  CHECK(math::exp(0.0F) == 1);
  CHECK(math::exp(-0.0F) == 1);
  CHECK(math::exp(89.0F) == infinity);
  CHECK(math::exp(std::numeric_limits<float>::max()) == infinity);
  CHECK(math::exp(std::numeric_limits<float>::lowest()) == 0);
  CHECK(math::tanh(infinity) == 1);
  CHECK(math::tanh(-infinity) == -1);
  CHECK(std::signbit(math::tanh(-0.0F)));
  CHECK(math::erf(infinity) == 1);
  CHECK(math::erf(-infinity) == -1);
  CHECK(std::signbit(math::erf(-0.0F)));
  CHECK(math::sigmoid(infinity) == 1);
  CHECK(math::sigmoid(-infinity) == 0);
  CHECK(math::sigmoid(0.0F) == 0.5F);
  CHECK(math::sqrt(0.0F) == 0);
  CHECK(math::sqrt(1.0F) == 1);
  CHECK(math::sqrt(infinity) == infinity);
  for (const float zero : {0.0F, -0.0F}) {
    CHECK(math::log(zero) == -infinity);
    CHECK(math::log2(zero) == -infinity);
    CHECK(math::log1p(zero) == 0);
    CHECK(std::signbit(math::log1p(zero)) == std::signbit(zero));
  }
  CHECK(math::log(1.0F) == 0);
  CHECK(math::log(infinity) == infinity);
  CHECK(math::log2(infinity) == infinity);
  CHECK(math::log1p(infinity) == infinity);
  CHECK(math::log1p(-1.0F) == -infinity);
  for (int n = -149; n < 128; ++n) CHECK(math::log2(std::ldexp(1.0F, n)) == static_cast<float>(n));
}

TEST_CASE("NaN of either sign gives NaN") {
  for (const float x : {not_a_number, -not_a_number}) {
    CHECK(std::isnan(math::exp(x)));
    CHECK(std::isnan(math::tanh(x)));
    CHECK(std::isnan(math::erf(x)));
    CHECK(std::isnan(math::sigmoid(x)));
    CHECK(std::isnan(math::sqrt(x)));
    CHECK(std::isnan(math::log(x)));
    CHECK(std::isnan(math::log1p(x)));
    CHECK(std::isnan(math::log2(x)));
    CHECK(std::isnan(math::sin(x)));
  }
  for (const float x : {-0x1p-149F, -1.0F, -infinity}) {
    CHECK(std::isnan(math::log(x)));
    CHECK(std::isnan(math::log1p(x - 1.5F)));
    CHECK(std::isnan(math::log2(x)));
  }
}

TEST_CASE("denormal results of exp are not flushed to 0") {
  for (float x = -103.9F; x < -87.4F; x += 0.37F) {
    const float want = static_cast<float>(std::exp(static_cast<double>(x)));
    CHECK(std::fabs(double{math::exp(x)} - double{want}) <= 0x1p-149);
    CHECK(math::exp(x) > 0);
  }
}

TEST_CASE("denormal arguments of tanh are returned unchanged") {
  CHECK(math::tanh(0x1p-149F) == 0x1p-149F);
  CHECK(math::tanh(-0x1p-130F) == -0x1p-130F);
}

TEST_CASE_TEMPLATE("bounded clamps the magnitude and keeps the sign", T, float, double) {
  CHECK(math::bounded(T(3), T(16)) == 3);
  CHECK(math::bounded(T(-3), T(16)) == -3);
  CHECK(math::bounded(T(17), T(16)) == 16);
  CHECK(math::bounded(-std::numeric_limits<T>::infinity(), T(16)) == -16);
  CHECK(math::bounded(std::numeric_limits<T>::max(), T(16)) == 16);
  CHECK(std::fabs(math::bounded(std::numeric_limits<T>::quiet_NaN(), T(16))) == 16);
}

TEST_CASE_TEMPLATE("functions that dual numbers have, of plain numbers", T, float, double) {
  const T x = T(0.7), unit = std::numeric_limits<T>::epsilon();
  CHECK(std::fabs(math::log(x) - std::log(x)) <= unit);
  CHECK(std::fabs(math::sin(x) - std::sin(x)) <= unit);
  CHECK(std::fabs(math::cos(x) - std::cos(x)) <= unit);
  CHECK(std::fabs(math::pow(x, 3) - std::pow(x, T(3))) <= unit);
  CHECK(std::fabs(math::pow(2, x) - std::pow(T(2), x)) <= 2 * unit);
  CHECK(math::abs(-x) == x);
  CHECK(math::abs(T(0)) == 0);
  CHECK(math::max(x, 0) == x);
  CHECK(math::max(0, -x) == 0);
  CHECK(math::min(x, 0.0F) == 0);
  CHECK(std::isnan(math::max(std::numeric_limits<T>::quiet_NaN(), T(1))));
  CHECK(std::isnan(math::abs(std::numeric_limits<T>::quiet_NaN())));
}
