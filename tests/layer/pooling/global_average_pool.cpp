// optimize: yes

#include <gpipe/layer/pooling/global_average_pool.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using map = feature_map<float, 3, 5, 7>;
static_assert(std::is_same_v<bound<global_average_pool, map>::output, tensor<float, 3>>);
static_assert(!bound<global_average_pool, map>::keeps.input && bound<global_average_pool, map>::extras.empty());

TEST_CASE("the mean of all pixels is that of torch.nn.AdaptiveAvgPool2d(1)") {
  laws::are_like_torch<map, global_average_pool>(reference::feature_maps::global_average_pool);
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
