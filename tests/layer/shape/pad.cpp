// optimize: yes

#include <gpipe/layer/shape/pad.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/shape/upsample.hpp>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using map = feature_map<float, 3, 3, 4>;
static_assert(std::is_same_v<bound<pad<1, 2, 0, 3>, map>::output, feature_map<float, 3, 6, 7>>);
static_assert(std::is_same_v<bound<pad_to<5, 4>, map>::output, feature_map<float, 3, 5, 4>>);
static_assert(bound<pad<1, 2, 0, 3>, map>::cost.bytes == 4 * (36 + 126));

TEST_CASE("rows and columns come and go as with torch.nn.functional.pad") {
  laws::are_like_torch<map, pad<1, 2, 0, 3>, pad<-1, 1, -1, 1>, pad<2, -3, -2, 0>>(reference::feature_maps::pad);
}

TEST_CASE("pad_to appends rows below and columns to the right") {
  host::layer_fixture<pad_to<2, 3>, feature_map<float, 1, 1, 2>> t(1, 1);
  t.in[0].set(0, 5);
  t.in[0].set(1, 7);
  t.forward();
  const double want[] = {5, 7, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 6; ++i) CHECK(t.out[0].get(i) == want[i]);
}

static_assert(std::is_same_v<bound<upsample<2>, map>::output, feature_map<float, 3, 6, 8>>);
static_assert(std::is_same_v<bound<upsample<height_width{1, 3}>, map>::output, feature_map<float, 3, 3, 12>>);

TEST_CASE("each pixel becomes a block, as with torch.nn.Upsample") {
  laws::are_like_torch<map, upsample<2>, upsample<height_width{1, 3}>>(reference::feature_maps::upsample);
}
