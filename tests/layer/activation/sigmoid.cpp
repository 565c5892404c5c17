// optimize: yes

#include <gpipe/layer/activation/sigmoid.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;

TEST_CASE("the functions have the values of PyTorch's Sigmoid and Tanh") {
  CHECK(sigmoid_activation::value(1.0) == doctest::Approx(0.7310585786300049).epsilon(1e-15));
  CHECK(sigmoid_activation::both(1.0).derivative == doctest::Approx(0.19661193324148185).epsilon(1e-15));
  CHECK(tanh_activation::value(1.0) == doctest::Approx(0.7615941559557649).epsilon(1e-15));
  CHECK(tanh_activation::both(1.0).derivative == doctest::Approx(0.41997434161402614).epsilon(1e-15));
}

TEST_CASE_TEMPLATE("far from 0 the functions are flat, and NaN stays NaN", T, float, double) {
  for (const T x : {T(1e3), T(1e30), std::numeric_limits<T>::infinity()}) {
    CHECK(sigmoid_activation::both(x).value == 1);
    CHECK(sigmoid_activation::both(-x).value == 0);
    CHECK(tanh_activation::both(-x).value == -1);
    CHECK(sigmoid_activation::both(x).derivative == 0);
    CHECK(tanh_activation::both(x).derivative == 0);
  }
  CHECK(std::isnan(sigmoid_activation::value(std::numeric_limits<T>::quiet_NaN())));
  CHECK(std::isnan(tanh_activation::value(std::numeric_limits<T>::quiet_NaN())));
}

TEST_CASE("backward reads the output, and not the input") {
  host::layer_fixture<tanh_activation, tensor<float, 5, 7>> t(3, 4);
  t.randomize(2);
  t.forward();
  for (auto& b : t.in) b.poison();
  t.backward_input();
  for (std::size_t i = 0; i < 3 * 35; ++i) {
    const double y = t.out[0].get(i);
    CHECK(t.in_gradient[0].get(i) == doctest::Approx((1 - y * y) * t.out_gradient[0].get(i)).epsilon(1e-5));
  }
  CHECK(t.overrun().empty());
}
