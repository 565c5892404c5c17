#include <gpipe/core/numbers/math.hpp>

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
  CHECK(worst_error([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }) <= 1);
  CHECK(worst_error([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }) <= 2);
  CHECK(worst_error([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }) <= 2);
  CHECK(worst_error([](float x) { return math::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); },
                    std::numeric_limits<float>::min()) <= 3);
  const auto of_magnitude = [](double x) { return std::sqrt(std::fabs(x)); };
  CHECK(worst_error([](float x) { return math::sqrt(std::fabs(x)); }, of_magnitude) <= 1);
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
}

TEST_CASE("NaN of either sign gives NaN") {
  for (const float x : {not_a_number, -not_a_number}) {
    CHECK(std::isnan(math::exp(x)));
    CHECK(std::isnan(math::tanh(x)));
    CHECK(std::isnan(math::erf(x)));
    CHECK(std::isnan(math::sigmoid(x)));
    CHECK(std::isnan(math::sqrt(x)));
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

TEST_CASE_TEMPLATE("functions that dual numbers have are those of the standard library for plain numbers", T, float,
                   double) {
  const volatile T given = T(0.7);
  const T x = given;
  CHECK(math::log(x) == std::log(x));
  CHECK(math::sin(x) == std::sin(x));
  CHECK(math::cos(x) == std::cos(x));
  CHECK(math::pow(x, 3) == std::pow(x, T(3)));
  CHECK(math::pow(2, x) == std::pow(T(2), x));
  CHECK(math::abs(-x) == x);
  CHECK(math::abs(T(0)) == 0);
  CHECK(math::max(x, 0) == x);
  CHECK(math::max(0, -x) == 0);
  CHECK(math::min(x, 0.0F) == 0);
  CHECK(std::isnan(math::max(std::numeric_limits<T>::quiet_NaN(), T(1))));
  CHECK(std::isnan(math::abs(std::numeric_limits<T>::quiet_NaN())));
}
