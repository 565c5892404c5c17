// optimize: yes

#include <gpipe/layer/normalization/group_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include <gpipe/layer/normalization/instance_norm.hpp>

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

namespace {

/// Evaluation has the bits of training, far from 0.
template <class Fixture>
void evaluates_as_it_trains(Fixture& t) {
  for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, 100 + t.in[0].get(i));
  t.forward();
  const auto trained = t.out[0].bits();
  t.call().training = false;
  t.forward();
  CHECK(t.out[0].bits() == trained);
}

}  // namespace

TEST_CASE("evaluation does the same, far from 0 too, with channels in several strips") {
  constexpr int C = 520, groups = 4, pixels = 9;  // a group ends within a strip of 256
  host::layer_fixture<group_norm<groups>, feature_map<float, C, 3, 3>> t(3, 3);
  t.randomize(1);
  for (std::size_t c = 0; c < C; ++c) t.parameters[0].set(c, 1), t.parameters[0].set(t.first_of(1) + c, 0);
  evaluates_as_it_trains(t);
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

using three_channels = feature_map<float, 3, 3, 4>;
static_assert(bound<instance_norm<>, three_channels>::keeps.output &&
              !bound<instance_norm<>, three_channels>::keeps.input);
static_assert(bound<instance_norm<>, three_channels>::extras[0].size == 3 &&
              bound<instance_norm<>, three_channels>::parameters.empty());

TEST_CASE("each channel of each sample is normalized as by torch.nn.InstanceNorm2d") {
  laws::are_like_torch<three_channels, instance_norm<>, instance_norm<250'000>>(reference::feature_maps::instance_norm);
}

TEST_CASE("evaluation does the same, far from 0 too, and one pixel gives 0") {
  host::layer_fixture<instance_norm<>, feature_map<float, 35, 4, 4>> t(3, 3);
  t.randomize(1);
  evaluates_as_it_trains(t);
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
