// optimize: yes

#include <gpipe/layer/convolution/conv_transpose2d.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::feature_maps;

namespace {

using map = feature_map<float, 4, 3, 2>;
using doubled = bound<conv_transpose2d<8, 2, conv_options{.stride = 2}>, map>;
using odd =
    bound<conv_transpose2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .output_padding = {1, 0}}>, map>;

static_assert(std::is_same_v<doubled::output, feature_map<float, 8, 6, 4>>);
static_assert(std::is_same_v<odd::output, feature_map<float, 6, 6, 3>>);
static_assert(std::is_same_v<bound<conv_transpose2d<9, 3, conv_options{.padding = same_padding}>, map>::output,
                             feature_map<float, 9, map::height, map::width>>);
static_assert(odd::parameters[0].extents == shape{3, 3, 3, 4} && odd::parameters[1].extents == shape{6});
static_assert(odd::parameters[0].first.of(odd::parameters[0].extents).fan_in == 27);  // as PyTorch counts them
static_assert(doubled::cost.backward_input == 2 * 2 * 2 * 8 * 4 * 6);

}  // namespace

TEST_CASE("a transposed convolution with every option is torch.nn.ConvTranspose2d") {
  laws::are_like_torch<
      map, conv_transpose2d<3, 2, conv_options{.stride = 2}>,
      conv_transpose2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .bias = false, .output_padding = 1}>,
      conv_transpose2d<2, height_width{3, 2}, conv_options{.stride = {3, 1}, .dilation = {1, 2}}>,
      conv_transpose2d<5, 3, conv_options{.padding = 1}>>(known::conv_transpose2d);
}
