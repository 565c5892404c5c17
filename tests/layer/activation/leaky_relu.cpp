// optimize: yes

#include <gpipe/layer/activation/leaky_relu.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <gpipe/core/tensors/tensor.hpp>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

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
