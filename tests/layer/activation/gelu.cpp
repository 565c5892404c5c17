// optimize: yes

#include <gpipe/layer/activation/gelu.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;

namespace {

// The formula of the paper.
double reference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

}  // namespace

TEST_CASE("gelu has the values of PyTorch's gelu(x, approximate='tanh')") {
  CHECK(gelu::both(1.0).value == doctest::Approx(0.8411919906).epsilon(1e-9));
  CHECK(gelu::both(-1.0).value == doctest::Approx(-0.1588080094).epsilon(1e-9));
  CHECK(gelu::both(3.0).value == doctest::Approx(2.9963626).epsilon(1e-7));
  CHECK(gelu::both(0.0).value == 0);
  CHECK(gelu::both(0.0).derivative == 0.5);
}

TEST_CASE_TEMPLATE("value and derivative agree with the formula", T, float, double) {
  const double tolerance = sizeof(T) == 4 ? 5e-7 : 1e-14;
  for (double x = -12; x < 12; x += 0.0371) {
    const T at = static_cast<T>(x);
    const double exact = static_cast<double>(at), h = 1e-5;
    const auto [value, derivative] = gelu::both(at);
    CHECK(std::fabs(static_cast<double>(value) - reference(exact)) <= tolerance * (1 + std::fabs(exact)));
    const double slope = (reference(exact + h) - reference(exact - h)) / (2 * h);
    CHECK(std::fabs(static_cast<double>(derivative) - slope) <= tolerance * 4 + 1e-9);
  }
}

TEST_CASE_TEMPLATE("far from 0 the functions are x or 0, and never NaN", T, float, double) {
  const auto holds = []<class Function>(Function, T nearest) {
    for (const T x : {nearest, T(1e10), T(1e30), std::numeric_limits<T>::max()}) {
      CHECK(Function::both(x).value == x);
      CHECK(Function::both(x).derivative == 1);
      CHECK(Function::both(-x).value == 0);
      CHECK(Function::both(-x).derivative == 0);
    }
    CHECK(std::isnan(Function::both(std::numeric_limits<T>::quiet_NaN()).value));
  };
  holds(gelu{}, T(40)), holds(exact_gelu{}, T(40)), holds(silu{}, T(1e4));
}

TEST_CASE("silu has the values of PyTorch's silu") {
  CHECK(silu::both(1.0).value == doctest::Approx(0.7310585786300049).epsilon(1e-15));
  CHECK(silu::both(-1.0).value == doctest::Approx(-0.2689414213699951).epsilon(1e-15));
  CHECK(silu::both(2.0).derivative == doctest::Approx(1.0907842487848955).epsilon(1e-15));
  CHECK(silu::both(0.0).value == 0);
  CHECK(silu::both(0.0).derivative == 0.5);
}

TEST_CASE("exact_gelu has the values of PyTorch's gelu(x), its default") {
  CHECK(exact_gelu::both(1.0).value == doctest::Approx(0.8413447460685429).epsilon(1e-15));
  CHECK(exact_gelu::both(-1.0).value == doctest::Approx(-0.15865525393145707).epsilon(1e-15));
  CHECK(exact_gelu::both(3.0).derivative == doctest::Approx(1.011945647204184).epsilon(1e-15));
  CHECK(exact_gelu::both(0.0).value == 0);
  CHECK(exact_gelu::both(0.0).derivative == 0.5);
}

TEST_CASE_TEMPLATE("value and derivative of exact_gelu agree with the error function", T, float, double) {
  const double tolerance = sizeof(T) == 4 ? 3e-7 : 1e-15;
  for (double x = -12; x < 12; x += 0.0371) {
    const double at = static_cast<double>(static_cast<T>(x)), share = 0.5 * std::erfc(-at / std::sqrt(2.0));
    const auto [value, derivative] = exact_gelu::both(static_cast<T>(x));
    CHECK(std::fabs(static_cast<double>(value) - at * share) <= tolerance * (1 + std::fabs(at)));
    const double density = std::exp(-at * at / 2) / std::sqrt(2 * 3.14159265358979323846);
    CHECK(std::fabs(static_cast<double>(derivative) - (share + at * density)) <= 4 * tolerance);
  }
}

TEST_CASE("gelu and exact_gelu differ by less than 5e-4, and by more than 4e-4 somewhere") {
  double largest = 0;
  for (double x = -6; x < 6; x += 1e-3)
    largest = std::fmax(largest, std::fabs(gelu::both(x).value - exact_gelu::both(x).value));
  CHECK(largest < 5e-4);
  CHECK(largest > 4e-4);
}

TEST_CASE("the kernels store the derivative and use it") {
  host::layer_fixture<gelu, tensor<float, 5, 7>> t(3, 4);
  t.randomize(2);
  t.forward();
  for (auto& b : t.in) b.poison();
  t.backward_input();
  t.randomize(2);
  for (std::size_t i = 0; i < 3 * 35; ++i) {
    const auto both = gelu::both(static_cast<float>(t.in[0].get(i)));
    CHECK(t.out[0].get(i) == doctest::Approx(double{both.value}).epsilon(1e-6));
    CHECK(t.in_gradient[0].get(i) == doctest::Approx(double{both.derivative} * t.out_gradient[0].get(i)).epsilon(1e-6));
  }
  CHECK(t.overrun().empty());
}
