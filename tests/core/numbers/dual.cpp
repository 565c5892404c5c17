// optimize: yes

#include <gpipe/core/numbers/dual.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

using namespace gpipe::math;

namespace {

// In the compiler: x^3 - 2 / x at 2.
constexpr dual<double> x{2, 1}, y = x * x * x - 2 / x;
static_assert(y.value == 7 && y.derivative == 12.5);
static_assert(abs(-x).derivative == 1 && abs(dual<double>(0, 1)).derivative == 0);
static_assert(max(x, 3).derivative == 0 && max(1, x).derivative == 1 && max(x, 2).derivative == 0.5);
static_assert(min(x, 3).derivative == 1 && min(1, x).value == 1 && min(x, 2).derivative == 0.5);
static_assert(x > 1 && 3 > x && x == 2 && x <= 2.0F);

/// The derivative of f at x against a central difference of its values.
template <class T, class F>
void agrees(F f, T at) {
  const T h = sizeof(T) == 4 ? T(4e-3) : T(1e-5), tolerance = sizeof(T) == 4 ? T(2e-3) : T(1e-8);
  const T slope = (f(dual<T>(at + h)).value - f(dual<T>(at - h)).value) / (2 * h);
  CAPTURE(at);
  CHECK(std::fabs(f(dual<T>(at, 1)).derivative - slope) <= tolerance * (1 + std::fabs(slope)));
  CHECK(f(dual<T>(at, 1)).value == f(dual<T>(at)).value);
}

}  // namespace

TEST_CASE_TEMPLATE("derivatives agree with differences", T, float, double) {
  for (const T at : {T(0.3), T(1), T(2.7)}) {
    agrees<T>([](auto a) { return exp(a); }, at);
    agrees<T>([](auto a) { return log(a); }, at);
    agrees<T>([](auto a) { return tanh(a); }, at);
    agrees<T>([](auto a) { return erf(a); }, at);
    agrees<T>([](auto a) { return sqrt(a); }, at);
    agrees<T>([](auto a) { return sin(a) * cos(2 * a); }, at);
    agrees<T>([](auto a) { return pow(a, 3) + pow(a, 0.5) + pow(2, a) + pow(a, a); }, at);
    agrees<T>([](auto a) { return pow(-a, 3); }, at);
    agrees<T>([](auto a) { return sigmoid(a) / (1 + a); }, at);
    agrees<T>([](auto a) { return abs(1.5 - a) + max(a, 2 * a - 1.2) + min(-a, a * a - 1); }, at);
    agrees<T>(
        [](auto a) {
          auto b = a;
          b += 1;
          b *= a;
          b -= 3;
          b /= a + 2;
          return b;
        },
        at);
  }
}

TEST_CASE_TEMPLATE("the value is that of the function without a derivative", T, float, double) {
  const T at = T(0.7);
  const dual<T> a(at, 1);
  CHECK(exp(a).value == gpipe::math::exp(at));
  CHECK(log(a).value == gpipe::math::log(at));
  CHECK(tanh(a).value == gpipe::math::tanh(at));
  CHECK(sigmoid(a).value == sigmoid(at));
}

TEST_CASE("NaN stays NaN, and powers of negative numbers and of 0 have a slope") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const dual<double> wrong(nan, 1);
  CHECK(std::isnan(abs(wrong).value));
  CHECK(std::isnan(max(wrong, 0).value));
  CHECK(std::isnan(max(0, wrong).value));
  CHECK(std::isnan(min(0, wrong).value));
  CHECK(pow(dual<double>(-2, 1), 2).derivative == -4);
  CHECK(pow(dual<double>(0, 1), 0).derivative == 0);
  CHECK(pow(dual<double>(0, 1), 1).derivative == 1);
}
