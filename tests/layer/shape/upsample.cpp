// optimize: yes

#include <gpipe/layer/shape/upsample.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using map = feature_map<float, 3, 3, 4>;
static_assert(std::is_same_v<bound<upsample<2>, map>::output, feature_map<float, 3, 6, 8>>);
static_assert(std::is_same_v<bound<upsample<height_width{1, 3}>, map>::output, feature_map<float, 3, 3, 12>>);

TEST_CASE("each pixel becomes a block, as with torch.nn.Upsample") {
  laws::are_like_torch<map, upsample<2>, upsample<height_width{1, 3}>>(reference::feature_maps::upsample);
}
