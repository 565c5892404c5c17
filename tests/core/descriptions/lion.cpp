#include <gpipe/core/descriptions/lion.hpp>

#include <doctest/doctest.h>

#include "support/optimizer_steps.hpp"

using namespace gpipe;

TEST_CASE("lion has the numbers of its formula") {
  laws::agrees_with({0.5684298393655659, 0.44201091225260158, -0.033508813032837273, -0.34486263586404992,
                     -0.38106030747589703, -0.084536235617230573},
                    lion{.learning_rate = 0.01, .weight_decay = 0.1});
}

TEST_CASE("each element moves by the rate, and not at all without a gradient") {
  double p[3] = {1, 1, 1}, g[3] = {1e-9, -5, 0}, m[3]{};
  const auto rule = lion{}.rule(update_operands<double>{p, g, {m}}, {1, 0.25, 1});
  for (int i = 0; i < 3; ++i) rule(i);
  CHECK(p[0] == 0.75);
  CHECK(p[1] == 1.25);
  CHECK(p[2] == 1);
}

TEST_CASE("settings out of range are refused") {
  laws::refuses(lion{.beta1 = 1}, "beta1 is 1; choose 0 or more, and less than 1");
  laws::refuses(lion{.beta2 = 2}, "beta2 is 2; choose 0 or more, and less than 1");
  laws::refuses(lion{.weight_decay = -0.1}, "weight_decay is -0.1; choose 0 or more");
}
