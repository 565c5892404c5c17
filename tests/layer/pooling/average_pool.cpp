// optimize: yes

#include <gpipe/layer/pooling/average_pool.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/pooling/global_average_pool.hpp>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::feature_maps;

namespace {

using map = feature_map<float, 3, 5, 7>;
using halved = bound<average_pool<2>, map>;
static_assert(std::is_same_v<halved::output, feature_map<float, 3, 2, 3>>);
static_assert(halved::extras.empty() && !halved::keeps.input && !halved::keeps.output);

}  // namespace

TEST_CASE("means, with the padding counted or not, are those of torch.nn.AvgPool2d") {
  laws::are_like_torch<
      map, average_pool<2>, average_pool<3, pool_options{.stride = 2, .padding = 1}>,
      average_pool<3, pool_options{.stride = 1, .padding = 1, .count_padding = false}>,
      average_pool<height_width{1, 3}, pool_options{.stride = {2, 1}}>,
      average_pool<height_width{5, 4}, pool_options{.stride = 1, .padding = {0, 2}, .count_padding = false}>>(
      known::average_pool);
}

TEST_CASE("pixels that no window sees have no gradient") {
  host::layer_fixture<average_pool<2, pool_options{.stride = 3}>, feature_map<float, 33, 5, 5>> t(2, 2);
  t.randomize(1);
  t.forward();
  t.backward_input();
  for (std::size_t i = 0; i < t.in_gradient[0].count(); ++i) {
    const std::size_t x = i / 33 % 5;
    if (x == 2 || i / 165 % 5 == 2) CHECK(t.in_gradient[0].get(i) == 0);
    else CHECK(t.in_gradient[0].get(i) != 0);
  }
}

static_assert(std::is_same_v<bound<global_average_pool, map>::output, tensor<float, 3>>);
static_assert(!bound<global_average_pool, map>::keeps.input && bound<global_average_pool, map>::extras.empty());

TEST_CASE("the mean of all pixels is that of torch.nn.AdaptiveAvgPool2d(1)") {
  laws::are_like_torch<map, global_average_pool>(known::global_average_pool);
}

TEST_CASE("more channels than a team has lanes") {
  host::layer_fixture<global_average_pool, feature_map<float, 70, 2, 1>> t(2, 3);
  t.randomize(1);
  t.forward();
  for (std::size_t sample = 0; sample < 2; ++sample)
    for (std::size_t c = 0; c < 70; ++c)
      CHECK(t.out[0].get(sample * 70 + c) ==
            doctest::Approx((t.in[0].get(sample * 140 + c) + t.in[0].get(sample * 140 + 70 + c)) / 2));
  CHECK(t.overrun().empty());
}
