// optimize: yes

#include <gpipe/layer/pooling/max_pool.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::feature_maps;

namespace {

using map = feature_map<float, 3, 5, 7>;
using overlapping = bound<max_pool<3, pool_options{.stride = 2, .padding = 1}>, map>;
static_assert(std::is_same_v<overlapping::output, feature_map<float, 3, 3, 4>>);
static_assert(std::is_same_v<bound<max_pool<2>, map>::output, feature_map<float, 3, 2, 3>>);
static_assert(!overlapping::keeps.input && !overlapping::keeps.output);
static_assert(overlapping::extras[0].size == 36 && overlapping::extras[0].type == dtype::uint8);

}  // namespace

TEST_CASE("maxima and their gradients, also at borders, are those of torch.nn.MaxPool2d") {
  laws::are_like_torch<map, max_pool<2>, max_pool<3, pool_options{.stride = 2, .padding = 1}>,
                       max_pool<height_width{3, 2}, pool_options{.stride = 1}>, max_pool<2, pool_options{.stride = 3}>,
                       max_pool<3, pool_options{.stride = 1, .padding = 1}>>(known::max_pool);
}

TEST_CASE("of equal maxima the first has the gradient, and padding is no maximum") {
  host::layer_fixture<max_pool<2, pool_options{.stride = 1, .padding = 1}>, feature_map<float, 1, 2, 2>> t(1, 1);
  for (std::size_t i = 0; i < 4; ++i) t.in[0].set(i, -5);
  for (std::size_t i = 0; i < 9; ++i) t.out_gradient[0].set(i, 1);
  t.forward();
  t.backward_input();
  for (std::size_t i = 0; i < 9; ++i) CHECK(t.out[0].get(i) == -5);
  const double want[] = {4, 2, 2, 1};
  for (std::size_t i = 0; i < 4; ++i) CHECK(t.in_gradient[0].get(i) == want[i]);
}

TEST_CASE("pixels that no window sees have no gradient") {
  const auto holds = []<class Layer>(Layer, auto is_seen) {
    host::layer_fixture<Layer, feature_map<float, 33, 5, 5>> t(2, 2);
    t.randomize(1);
    t.forward();
    t.backward_input();
    for (std::size_t i = 0; i < t.in_gradient[0].count(); ++i)
      if (!is_seen(i / 165 % 5, i / 33 % 5)) CHECK(t.in_gradient[0].get(i) == 0);
  };
  holds(max_pool<2, pool_options{.stride = 3}>{}, [](std::size_t y, std::size_t x) { return y != 2 && x != 2; });
  holds(max_pool<height_width{1, 2}, pool_options{.stride = {2, 1}}>{}, [](std::size_t y, auto) { return y % 2 == 0; });
}

TEST_CASE_TEMPLATE("NaN and infinity go through, at every place of a window", T, float, double, bf16) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  // 70 channels: whole vectors and a rest. Channel c has the odd value at place c % 4.
  for (const double odd : {nan, infinity, -infinity}) {
    host::layer_fixture<max_pool<2>, feature_map<T, 70, 2, 2>> t(1, 1);
    for (std::size_t i = 0; i < 280; ++i) t.in[0].set(i, i / 70 == i % 70 % 4 ? odd : static_cast<double>(i / 70) - 9);
    for (std::size_t i = 0; i < 70; ++i) t.out_gradient[0].set(i, 2);
    t.forward();
    t.backward_input();
    for (std::size_t c = 0; c < 70; ++c) {
      const std::size_t at = odd == -infinity ? (c % 4 == 3 ? 2 : 3) : c % 4;
      const double found = t.out[0].get(c);
      CHECK((std::isnan(odd) ? std::isnan(found) : found == (odd < 0 ? static_cast<double>(at) - 9 : odd)));
      for (std::size_t i = 0; i < 4; ++i) CHECK(t.in_gradient[0].get(i * 70 + c) == (i == at ? 2 : 0));
    }
  }
}
