// optimize: yes

#include <gpipe/layer/activation/relu.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/activation/leaky_relu.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE_TEMPLATE("relu replaces negative elements by 0 and keeps NaN", T, float, double) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  host::layer_fixture<relu, tensor<T, 6>> t(1, 1);
  const double in[] = {-1, 2, -infinity, infinity, nan, -nan}, out[] = {0, 2, 0, infinity};
  for (std::size_t i = 0; i < 6; ++i) {
    t.in[0].set(i, in[i]);
    t.out_gradient[0].set(i, 3);
  }
  t.forward();
  t.backward_input();
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(t.out[0].get(i) == out[i]);
    CHECK(t.in_gradient[0].get(i) == (in[i] > 0 ? 3 : 0));
  }
  CHECK(std::isnan(t.out[0].get(4)));
  CHECK(std::isnan(t.out[0].get(5)));
}

TEST_CASE("the derivative at 0 is 0, and a NaN gradient does not pass a cut element") {
  host::layer_fixture<relu, tensor<float, 2>> t(1, 1);
  t.in[0].set(0, 0);
  t.in[0].set(1, -1);
  t.out_gradient[0].set(0, 5);
  t.forward();
  t.backward_input();
  CHECK(t.in_gradient[0].get(0) == 0);
  CHECK(t.in_gradient[0].get(1) == 0);
}

TEST_CASE("relu accepts any shape") {
  using grid = bound<relu, tensor<double, 2, 3, 4>>;
  static_assert(std::is_same_v<grid::output, tensor<double, 2, 3, 4>>);
  host::layer_fixture<relu, tensor<double, 2, 3, 4>> t(3, 3);
  t.randomize(1);
  t.forward();
  for (std::size_t i = 0; i < 72; ++i) CHECK(t.out[0].get(i) == std::fmax(t.in[0].get(i), 0.0));
}

TEST_CASE("the function and its derivative are torch.nn.LeakyReLU's") {
  laws::are_like_torch<feature_map<float, 3, 3, 4>, leaky_relu<>, leaky_relu<300>>(reference::feature_maps::leaky_relu);
}

TEST_CASE("0 and negative numbers have the slope below; NaN stays") {
  host::layer_fixture<leaky_relu<500>, tensor<float, 4>> t(1, 1);
  const double in[] = {0, -8, 8, std::numeric_limits<double>::quiet_NaN()};
  for (std::size_t i = 0; i < 4; ++i) t.in[0].set(i, in[i]), t.out_gradient[0].set(i, 4);
  t.forward();
  t.backward_input();
  CHECK(t.out[0].get(0) == 0);
  CHECK(t.out[0].get(1) == -4);
  CHECK(t.out[0].get(2) == 8);
  CHECK(std::isnan(t.out[0].get(3)));
  CHECK(t.in_gradient[0].get(0) == 2);
  CHECK(t.in_gradient[0].get(1) == 2);
  CHECK(t.in_gradient[0].get(2) == 4);
}
