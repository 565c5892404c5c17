// optimize: kernels

#include <gpipe/layer/convolution/conv2d.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>

#include <gpipe/layer/contract/initialized.hpp>
#include <gpipe/layer/convolution/conv_transpose2d.hpp>

#include "support/like_torch.hpp"

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::feature_maps;

namespace {

using map = feature_map<float, 4, 5, 6>;
template <class Layer, class In, class Out>
inline constexpr bool gives = std::is_same_v<typename bound<Layer, In>::output, Out>;

static_assert(gives<conv2d<3, 3>, map, feature_map<float, 3, 3, 4>>);
static_assert(gives<conv2d<64, 7, conv_options{.stride = 2, .padding = 3}>, feature_map<bf16, 3, 224, 224>,
                    feature_map<bf16, 64, 112, 112>>);
static_assert(gives<conv2d<9, height_width{1, 7}, conv_options{.stride = {1, 2}, .padding = {0, 3}}>, map,
                    feature_map<float, 9, 5, 3>>);

static_assert(
    gives<conv2d<9, height_width{1, 7}, conv_options{.padding = same_padding}>, map, feature_map<float, 9, 5, 6>>);
static_assert(gives<conv2d<9, 4, conv_options{.padding = same_padding, .dilation = {2, 4}}>,
                    feature_map<float, 4, 5, 6>, feature_map<float, 9, 5, 6>>);

static_assert(padding_exists(same_padding, 3, 1, 5) && padding_exists(1, 4, 3, 1));
static_assert(!padding_exists(same_padding, 3, 2, 1) && !padding_exists(same_padding, {3, 4}, 1, 1));

// {height, width, channels of a group, outputs}, PyTorch's first values, and nothing without a bias.
using grouped = bound<conv2d<6, 3, conv_options{.padding = 1, .groups = 2}>, map>;
static_assert(grouped::parameters[0].extents == shape{3, 3, 2, 6} && grouped::parameters[1].extents == shape{6});
static_assert(grouped::parameters[0].first.of(shape{3, 3, 2, 6}).fan_in == 18);
static_assert(grouped::parameters[1].first.fan_in == 18);
static_assert(bound<conv2d<6, 3, conv_options{.bias = false}>, map>::parameters.size() == 1);
static_assert(grouped::keeps.input && !grouped::keeps.output && grouped::extras.empty());

// Two operations for each weight and output pixel; one for each bias.
static_assert(grouped::cost.backward_input == 2 * 3 * 3 * 2 * 6 * 30 && grouped::cost.forward == 2 * 3240 + 6 * 30);

// As ResNet begins: fan out is the outputs that a value goes to.
using drawn = bound<initialized<conv2d<6, 3, conv_options{.bias = false}>, initializer::kaiming()>, map>;
static_assert(drawn::parameters[0].first.of(drawn::parameters[0].extents).fan_in == 3 * 3 * 6);

}  // namespace

TEST_CASE("a convolution with every option is torch.nn.Conv2d") {
  laws::are_like_torch<map, conv2d<3, 3>,
                       conv2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .bias = false}>,
                       conv2d<5, height_width{1, 5}, conv_options{.padding = {0, 2}}>,
                       conv2d<2, 2, conv_options{.stride = {1, 3}, .padding = {2, 1}, .dilation = {3, 2}}>,
                       conv2d<8, 3, conv_options{.padding = 1, .groups = 4}>, conv2d<7, 1, conv_options{.stride = 2}>>(
      known::conv2d);
}

TEST_CASE("an output pixel is the sum over its window, in the order of the weight's extents") {
  host::layer_fixture<conv2d<2, height_width{1, 2}, conv_options{.bias = false}>, feature_map<float, 2, 1, 3>> t(1, 1);
  for (std::size_t i = 0; i < 6; ++i) t.in[0].set(i, static_cast<double>(i + 1));  // pixels (1, 2), (3, 4), (5, 6)
  const double weight[] = {1, 0, 0, 10, 100, 0, 0, 1000};                          // {1, 2, 2, 2}
  for (std::size_t i = 0; i < 8; ++i) t.parameters[0].set(i, weight[i]);
  t.refresh();
  t.forward();
  const double want[] = {301, 4020, 503, 6040};
  for (std::size_t i = 0; i < 4; ++i) CHECK(t.out[0].get(i) == want[i]);
}

TEST_CASE("padding that keeps the image has the bits of the same number of pixels") {
  using number = conv2d<6, height_width{3, 5}, conv_options{.padding = {2, 2}, .dilation = {2, 1}, .groups = 2}>;
  using same = conv2d<6, height_width{3, 5}, conv_options{.padding = same_padding, .dilation = {2, 1}, .groups = 2}>;
  host::layer_fixture<number, map> one(2, 2);
  host::layer_fixture<same, map> other(2, 2);
  one.randomize(3), other.randomize(3);
  one.refresh(), other.refresh();
  one.forward(), other.forward();
  one.backward(), other.backward();
  for (std::size_t i = 0; i < one.out[0].count(); ++i) CHECK(one.out[0].get(i) == other.out[0].get(i));
  for (std::size_t i = 0; i < one.in_gradient[0].count(); ++i)
    CHECK(one.in_gradient[0].get(i) == other.in_gradient[0].get(i));
  for (std::size_t i = 0; i < one.gradients[0].count(); ++i)
    CHECK(one.gradients[0].get(i) == other.gradients[0].get(i));
}

TEST_CASE("several calls have the bits of one, whatever the number of samples in each") {
  using layer = conv2d<19, 3, conv_options{.stride = 2, .padding = 1}>;
  using fixture = host::layer_fixture<layer, feature_map<float, 5, 7, 6>>;
  fixture whole(5, 5), parts(5, 5);
  for (fixture* t : {&whole, &parts}) t->randomize(3), t->refresh();
  whole.forward();
  whole.backward();
  const gpipe::detail::call all = parts.call();
  constexpr std::size_t in = sizeof(float) * fixture::bound::input::size,
                        out = sizeof(float) * fixture::bound::output::size;
  for (std::size_t first = 0, count = 2; first < 5; first += count, count = 3) {
    gpipe::detail::call& some = parts.call();
    some.samples = static_cast<int>(count);
    some.in[0] = all.in[0] + first * in, some.in_gradient[0] = all.in_gradient[0] + first * in;
    some.out[0] = all.out[0] + first * out, some.out_gradient[0] = all.out_gradient[0] + first * out;
    parts.forward();
    parts.backward();
  }
  CHECK(parts.out[0].bits() == whole.out[0].bits());
  CHECK(parts.in_gradient[0].bits() == whole.in_gradient[0].bits());
  for (std::size_t i = 0; i < fixture::bound::parameters[0].extents.size(); ++i)
    CHECK(parts.gradients[0].get(i) == whole.gradients[0].get(i));
}

namespace {

using low = feature_map<float, 4, 3, 2>;
using doubled = bound<conv_transpose2d<8, 2, conv_options{.stride = 2}>, low>;
using odd =
    bound<conv_transpose2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .output_padding = {1, 0}}>, low>;

static_assert(std::is_same_v<doubled::output, feature_map<float, 8, 6, 4>>);
static_assert(std::is_same_v<odd::output, feature_map<float, 6, 6, 3>>);
static_assert(std::is_same_v<bound<conv_transpose2d<9, 3, conv_options{.padding = same_padding}>, low>::output,
                             feature_map<float, 9, low::height, low::width>>);
static_assert(odd::parameters[0].extents == shape{3, 3, 3, 4} && odd::parameters[1].extents == shape{6});
static_assert(odd::parameters[0].first.of(odd::parameters[0].extents).fan_in == 27);  // as PyTorch counts them
static_assert(doubled::cost.backward_input == 2 * 2 * 2 * 8 * 4 * 6);

}  // namespace

TEST_CASE("a transposed convolution with every option is torch.nn.ConvTranspose2d") {
  laws::are_like_torch<
      low, conv_transpose2d<3, 2, conv_options{.stride = 2}>,
      conv_transpose2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .bias = false, .output_padding = 1}>,
      conv_transpose2d<2, height_width{3, 2}, conv_options{.stride = {3, 1}, .dilation = {1, 2}}>,
      conv_transpose2d<5, 3, conv_options{.padding = 1}>>(known::conv_transpose2d);
}
