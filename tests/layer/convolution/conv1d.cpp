// optimize: kernels

#include <gpipe/layer/convolution/conv1d.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <type_traits>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <class Layer, class In, class Out>
inline constexpr bool gives = std::is_same_v<typename bound<Layer, In>::output, Out>;

static_assert(gives<conv1d<3, 3>, tensor<float, 7, 4>, tensor<float, 5, 3>>);
static_assert(gives<conv1d<6, 3, conv_options{.stride = 2, .padding = 1}>, tensor<bf16, 7, 4>, tensor<bf16, 4, 6>>);
static_assert(gives<conv1d<6, 5, conv_options{.padding = same_padding}>, tensor<float, 7, 4>, tensor<float, 7, 6>>);
static_assert(gives<conv1d<6, 3, conv_options{.dilation = 3}>, tensor<float, 7, 4>, tensor<float, 1, 6>>);

static_assert(gives<conv1d<6, 3, conv_options{.stride = 2}>, feature_map<float, 4, 1, 7>, feature_map<float, 6, 1, 3>>);
static_assert(bound<conv1d<6, 3>, feature_map<float, 4, 1, 7>>::parameters[0].extents == shape{3, 4, 6});

using grouped = bound<conv1d<6, 3, conv_options{.padding = 1, .groups = 2}>, tensor<float, 7, 4>>;
static_assert(grouped::parameters[0].extents == shape{3, 2, 6} && grouped::parameters[1].extents == shape{6});
static_assert(grouped::parameters[0].first.of(shape{3, 2, 6}).fan_in == 6);
static_assert(bound<conv1d<6, 3, conv_options{.bias = false}>, tensor<float, 7, 4>>::parameters.size() == 1);

/// The same bits as a convolution of an image of one row of pixels.
template <class T, int Out, int Kernel, conv_options Options, conv_options OfImage, int L = 7>
void is_of_one_row() {
  host::layer_fixture<conv1d<Out, Kernel, Options>, tensor<T, L, 4>> along(3, 3);
  host::layer_fixture<conv1d<Out, Kernel, Options>, feature_map<T, 4, 1, L>> row(3, 3);
  host::layer_fixture<conv2d<Out, height_width{1, Kernel}, OfImage>, feature_map<T, 4, 1, L>> image(3, 3);
  const auto run = [](auto& t) { t.randomize(1), t.refresh(), t.forward(), t.backward(); };
  run(along), run(row), run(image);
  const auto same_bits = [&](auto& t) {
    CHECK(t.out[0].bits() == image.out[0].bits());
    CHECK(t.in_gradient[0].bits() == image.in_gradient[0].bits());
    CHECK(t.gradients[0].bits() == image.gradients[0].bits());
    CHECK(t.overrun() == "");
  };
  same_bits(along), same_bits(row);
}

}  // namespace

TEST_CASE_TEMPLATE("a convolution along a sequence has the bits of one of an image of one row", T, float, double,
                   bf16) {
  is_of_one_row<T, 3, 3, conv_options{}, conv_options{}>();
  is_of_one_row<T, 5, 5, conv_options{.padding = same_padding}, conv_options{.padding = {0, 2}}>();
  is_of_one_row<T, 6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .bias = false},
                conv_options{.stride = {1, 2}, .padding = {0, 1}, .groups = 2, .bias = false}>();
  is_of_one_row<T, 4, 2, conv_options{.padding = 3, .dilation = 4}, conv_options{.padding = {0, 3}, .dilation = {1, 4}},
                1>();
}

TEST_CASE("the sums are those of the formula") {
  host::layer_fixture<conv1d<1, 2>, tensor<float, 3, 2>> t(1, 1);
  for (std::size_t i = 0; i < 6; ++i) t.in[0].set(i, 1 + static_cast<double>(i));  // {1, 2}, {3, 4}, {5, 6}
  for (std::size_t i = 0; i < 4; ++i) t.parameters[0].set(i, 10 * static_cast<double>(1 + i));  // {10, 20}, {30, 40}
  t.parameters[0].set(t.first_of(1), 0.5);
  t.refresh(), t.forward();
  CHECK(t.out[0].get(0) == 10 + 40 + 90 + 160 + 0.5);
  CHECK(t.out[0].get(1) == 30 + 80 + 150 + 240 + 0.5);
}
