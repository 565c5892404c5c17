// optimize: yes

#include <gpipe/layer/normalization/instance_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using map = feature_map<float, 3, 3, 4>;
static_assert(bound<instance_norm<>, map>::keeps.output && !bound<instance_norm<>, map>::keeps.input);
static_assert(bound<instance_norm<>, map>::extras[0].size == 3 && bound<instance_norm<>, map>::parameters.empty());

TEST_CASE("each channel of each sample is normalized as by torch.nn.InstanceNorm2d") {
  laws::are_like_torch<map, instance_norm<>, instance_norm<250'000>>(reference::feature_maps::instance_norm);
}

TEST_CASE("evaluation does the same, far from 0 too, and one pixel gives 0") {
  host::layer_fixture<instance_norm<>, feature_map<float, 35, 4, 4>> t(3, 3);
  t.randomize(1);
  for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, 100 + t.in[0].get(i));
  t.forward();
  const auto trained = t.out[0].bits();
  t.call().training = false;
  t.forward();
  CHECK(t.out[0].bits() == trained);
  for (std::size_t c = 0; c < 35; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t p = 0; p < 16; ++p)
      sum += t.out[0].get(p * 35 + c), squares += std::pow(t.out[0].get(p * 35 + c), 2);
    CHECK(std::fabs(sum) < 1e-3);
    CHECK(squares == doctest::Approx(16).epsilon(1e-3));
  }
  host::layer_fixture<instance_norm<>, feature_map<float, 3, 1, 1>> one(1, 1);
  one.randomize(1);
  one.forward();
  one.backward_input();
  for (std::size_t i = 0; i < 3; ++i) CHECK(one.out[0].get(i) == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(one.in_gradient[0].get(i) == 0);
}
