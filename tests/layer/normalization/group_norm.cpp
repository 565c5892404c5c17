// optimize: yes

#include <gpipe/layer/normalization/group_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using map = feature_map<float, 6, 3, 4>;
static_assert(bound<group_norm<2>, map>::keeps.input && !bound<group_norm<2>, map>::keeps.output);
static_assert(bound<group_norm<2>, map>::parameters.size() == 2);

TEST_CASE("groups of channels are normalized as by torch.nn.GroupNorm") {
  laws::are_like_torch<map, group_norm<1>, group_norm_with<2, mean_and_variance{.epsilon = 0.25}>, group_norm<6>>(
      reference::feature_maps::group_norm);
}

TEST_CASE("each channel is normalized, with a weight and a bias, as by torch.nn.InstanceNorm2d with affine = True") {
  laws::are_like_torch<feature_map<float, 3, 3, 4>, affine_instance_norm<>,
                       affine_instance_norm<mean_and_variance{.epsilon = 0.25}>>(
      reference::feature_maps::affine_instance_norm);
}

TEST_CASE("evaluation does the same, far from 0 too, with channels in several strips") {
  constexpr int C = 520, groups = 4, pixels = 9;  // a group ends within a strip of 256
  host::layer_fixture<group_norm<groups>, feature_map<float, C, 3, 3>> t(3, 3);
  t.randomize(1);
  for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, 100 + t.in[0].get(i));
  for (std::size_t c = 0; c < C; ++c) t.parameters[0].set(c, 1), t.parameters[0].set(t.first_of(1) + c, 0);
  t.forward();
  const auto trained = t.out[0].bits();
  t.call().training = false;
  t.forward();
  CHECK(t.out[0].bits() == trained);
  for (std::size_t g = 0; g < groups; ++g) {
    double sum = 0, squares = 0;
    for (std::size_t p = 0; p < pixels; ++p)
      for (std::size_t c = g * C / groups; c < (g + 1) * C / groups; ++c) {
        const double y = t.out[0].get((pixels + p) * C + c);  // of the second sample
        sum += y, squares += y * y;
      }
    CHECK(std::fabs(sum) < 0.02);
    CHECK(squares == doctest::Approx(pixels * C / groups).epsilon(1e-3));
  }
}

TEST_CASE("one pixel of one channel gives the bias, and no gradient") {
  host::layer_fixture<affine_instance_norm<>, feature_map<float, 3, 1, 1>> one(1, 1);
  one.randomize(1);
  one.forward();
  one.backward();
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(one.out[0].get(c) == one.parameters[0].get(one.first_of(1) + c));
    CHECK(one.in_gradient[0].get(c) == 0);
    CHECK(one.gradients[0].get(c) == 0);
    CHECK(one.gradients[0].get(one.first_of(1) + c) == one.out_gradient[0].get(c));
  }
}

TEST_CASE("without the input's gradient, those of the parameters are the same") {
  host::layer_fixture<group_norm<2>, map> with(3, 3), without(3, 3);
  for (auto* t : {&with, &without}) t->randomize(1), t->forward();
  without.call().in_gradient[0] = nullptr;
  with.backward(), without.backward();
  CHECK(without.gradients[0].bits() == with.gradients[0].bits());
}
