// sanitizers: address

// Law 2: backward is the derivative of forward, for every layer.

#include <gpipe/tools/testing/gradient_check.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <gpipe/layer.hpp>

#include "support/larger_error.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// Functions given by their value alone.
struct mish : pointwise<mish> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x * math::tanh(math::log(1 + math::exp(x)));
  }
};
using wave = elementwise<[](auto x) { return math::sin(x) * math::cos(x / 2) + math::sqrt(1 + math::pow(x, 2)); }>;

// Attention with settings.
using causal_groups = gpipe::attention<attention_options{.heads = 4, .key_heads = 2, .head_width = 3, .causal = true}>;
using turned = gpipe::attention<attention_options{.heads = 2, .bias = false, .rotary = 100}>;
using with_lengths = gpipe::attention<attention_options{.heads = 2, .causal = true, .padded = true}>;
using to_others = cross_attention<attention_options{.heads = 2}>;
using to_few = cross_attention<attention_options{.heads = 4, .key_heads = 2, .head_width = 3, .padded = true}>;
template <class T>
using map = feature_map<T, 6, 4, 5>;
using loose = rms_norm_with<root_mean_square{.epsilon = 0.25}>;

// Losses with settings. Some labels are ignored, and some of the inputs, which are below 1.5, are clipped.
using smooth = softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1}>;
using ignoring = softmax_cross_entropy_with<cross_entropy{.ignored = -100}>;
using clipped = softmax_cross_entropy_with<cross_entropy{.clip = 1.2}>;
using every_setting = softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1, .ignored = 1000, .clip = 0.75}>;

void passes(std::string_view layer, gradient_report (*check)(const gradient_check_options&)) {
  for (const int samples : {1, 3, 7})
    for (const bool training : {true, false}) {
      const gradient_report report = check({.samples = samples, .training = training});
      CAPTURE(layer);
      CAPTURE(samples);
      CAPTURE(training);
      CAPTURE(report.where);
      CAPTURE(report.worst);
      CHECK(report.passes());
    }
}
template <class Layer, class In>
void holds() {
  passes(type_name<Layer>, check_gradient<Layer, In>);
}

/// A layer's buffers, and its refresh, forward and backward.
struct runs_of_layer {
  host::layer_buffers& buffers;
  void (*run)(host::layer_buffers&);
};

/// Compares a layer in bf16 with the same layer in double on the same numbers, in units of each tensor's maximum. A
/// written bf16 is rounded, by at largest 2^-8; a second time if backward reads a value that forward has stored in it,
/// as gelu its derivative. All else, losses and gradients of parameters, is float. A layer with several products rounds
/// what they give to each other, so its parameters' gradients have these `roundings`, too.
class in_bf16 {
 public:
  in_bf16(std::string_view layer, const runs_of_layer& narrow, const runs_of_layer& wide, bool training)
      : layer_(layer), narrow_(narrow.buffers), wide_(wide.buffers) {
    narrow_.randomize(3);
    narrow_.call().training = wide_.call().training = training;
    hand_over(narrow_.in, wide_.in);
    hand_over(narrow_.out_gradient, wide_.out_gradient);
    hand_over(narrow_.fields, wide_.fields);
    const host::layer_declaration &here = narrow_.declared(), &there = wide_.declared();
    for (std::size_t p = 0; p < here.parameters.size(); ++p)
      hand_over(narrow_.parameters[0], here.first_of(p), wide_.parameters[0], there.first_of(p),
                here.parameters[p].extents.size());
    for (std::size_t p = 0; p < here.state.size(); ++p)
      hand_over(narrow_.state[0], here.first_of_state(p), wide_.state[0], there.first_of_state(p),
                here.state[p].extents.size());
    narrow.run(narrow_);
    wide.run(wide_);
  }

  void holds(int roundings) {
    const double inner = roundings * 0x1.01p-8;
    for (std::size_t o = 0; o < wide_.out.size(); ++o) compare(narrow_.out[o], wide_.out[o], 0x1.01p-8 + inner);
    for (std::size_t i = 0; i < wide_.in.size(); ++i)
      compare(narrow_.in_gradient[i], wide_.in_gradient[i], 0x1.01p-7 + inner);
    if (narrow_.call().training || narrow_.declared().state.empty())  // else forward may write none
      compare(narrow_.partials[0], wide_.partials[0], 1e-5 + inner);
    const host::layer_declaration &here = narrow_.declared(), &there = wide_.declared();
    for (std::size_t p = 0; p < here.parameters.size(); ++p)
      compare(narrow_.gradients[0], here.first_of(p), wide_.gradients[0], there.first_of(p),
              here.parameters[p].extents.size(), 1e-5 + inner);
    CHECK(narrow_.overrun() == "");
  }

 private:
  using buffer = host::guarded_buffer;

  // Rounded here, so that weights are the same whether a layer rounds them or not.
  static void hand_over(buffer& from, std::size_t first, buffer& into, std::size_t at, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float same = bf16(static_cast<float>(from.get(first + i)));
      from.set(first + i, static_cast<double>(same));
      into.set(at + i, static_cast<double>(same));
    }
  }
  static void hand_over(std::vector<buffer>& from, std::vector<buffer>& into) {
    for (std::size_t b = 0; b < from.size(); ++b) hand_over(from[b], 0, into[b], 0, from[b].count());
  }

  void compare(const buffer& got, std::size_t first, const buffer& want, std::size_t at, std::size_t count,
               double tolerance) {
    double largest = 1e-30, off = 0;
    for (std::size_t i = 0; i < count; ++i) largest = (std::max)(largest, std::fabs(want.get(at + i)));
    for (std::size_t i = 0; i < count; ++i)
      off = larger_error(off, std::fabs(got.get(first + i) - want.get(at + i)) / largest);
    CAPTURE(layer_);
    CAPTURE(got.name());
    CHECK(off <= tolerance);
  }
  void compare(const buffer& got, const buffer& want, double tolerance) {
    const auto used = static_cast<std::size_t>(narrow_.call().samples);
    const bool samples = got.type() == dtype::bf16;
    compare(got, 0, want, 0, samples ? got.count() / 6 * used : got.count(), tolerance);
  }

  std::string_view layer_;
  host::layer_buffers &narrow_, &wide_;
};

template <class Fixture>
runs_of_layer runs_of(Fixture& fixture) {
  return {fixture, [](host::layer_buffers& it) {
            auto& t = static_cast<Fixture&>(it);
            t.refresh();
            t.forward();
            t.backward_input();
            t.backward_parameters();
          }};
}
template <class Layer, class Narrow, class Wide, int Roundings = 0>
void rounds(bool training = true) {
  host::layer_fixture<Layer, Narrow> narrow(5, 6);
  host::layer_fixture<Layer, Wide> wide(5, 6);
  in_bf16(type_name<Layer>, runs_of(narrow), runs_of(wide), training).holds(Roundings);
}

template <class Layer, int... N>
void holds_in_bf16() {
  for (const bool training : {true, false}) rounds<Layer, tensor<bf16, N...>, tensor<double, N...>>(training);
}
template <class Layer, class Narrow, class Wide>
void holds_in_bf16_with_products() {
  rounds<Layer, Narrow, Wide, 3>();
}

}  // namespace

TEST_CASE("in bf16 every layer differs from double by no more than its roundings") {
  using narrow = tensor<bf16, 40>;
  using wide = tensor<double, 40>;
  rounds<add, bundle<narrow, narrow>, bundle<wide, wide>>();
  rounds<multiply, bundle<narrow, narrow>, bundle<wide, wide>>();
  rounds<gpipe::concat<>, bundle<narrow, narrow>, bundle<wide, wide>>();
  holds_in_bf16<split<30, 10>, 3, 40>();
  holds_in_bf16<mish, 40>();
  holds_in_bf16<wave, 40>();
  holds_in_bf16<batch_norm<>, 37>();
  holds_in_bf16<batch_norm<>, 3, 5>();
  holds_in_bf16<dropout<10>, 3, 11>();
  holds_in_bf16<gated<mish>, 3, 22>();
  holds_in_bf16<gated<silu>, 3, 22>();
  holds_in_bf16<gelu, 40>();
  holds_in_bf16<exact_gelu, 40>();
  holds_in_bf16<sigmoid_activation, 40>();
  holds_in_bf16<tanh_activation, 40>();
  holds_in_bf16<layer_norm, 3, 17>();
  holds_in_bf16<learned_positions<5>, 3, 17>();
  holds_in_bf16<linear<34>, 2, 300>();
  holds_in_bf16<linear<34, no_bias>, 2, 300>();
  holds_in_bf16<relu, 40>();
  holds_in_bf16<rms_norm, 3, 17>();
  holds_in_bf16<silu, 40>();
  holds_in_bf16<sinusoidal_positions, 3, 17>();
  holds_in_bf16<softmax_cross_entropy, 3, 17>();
  holds_in_bf16<smooth, 3, 17>();
  holds_in_bf16<every_setting, 3, 17>();
  holds_in_bf16<mean_squared_error, 40>();
  holds_in_bf16<mean_absolute_error, 40>();
  holds_in_bf16<huber_loss<0.5>, 40>();
  holds_in_bf16<smooth_l1_loss<>, 40>();
  holds_in_bf16<binary_cross_entropy, 3, 17>();
  rounds<conv2d<5, 3, conv_options{.padding = 1}>, map<bf16>, map<double>>();
  rounds<conv_transpose2d<5, 2, conv_options{.stride = 2, .bias = false}>, map<bf16>, map<double>>();
  rounds<max_pool<2>, map<bf16>, map<double>>();
  rounds<batch_norm<>, map<bf16>, map<double>>();
  rounds<instance_norm<>, map<bf16>, map<double>, 1>();
  rounds<group_norm<1>, map<bf16>, map<double>>();
  rounds<affine_instance_norm<>, map<bf16>, map<double>>();
  rounds<channel_dropout<40>, map<bf16>, map<double>>();
  rounds<leaky_relu<>, map<bf16>, map<double>>();
  rounds<global_average_pool, map<bf16>, map<double>>();
  rounds<upsample<2>, map<bf16>, map<double>>();
  rounds<token_head<17>, tensor<bf16, 3, 9>, tensor<double, 3, 9>, 1>();
}

TEST_CASE("in bf16 attention differs from double by no more than the roundings of its products") {
  holds_in_bf16_with_products<causal_attention<2>, tensor<bf16, 9, 8>, tensor<double, 9, 8>>();
  holds_in_bf16_with_products<causal_groups, tensor<bf16, 5, 7>, tensor<double, 5, 7>>();
  holds_in_bf16_with_products<turned, tensor<bf16, 5, 8>, tensor<double, 5, 8>>();
  holds_in_bf16_with_products<with_lengths, tensor<bf16, 5, 8>, tensor<double, 5, 8>>();
  holds_in_bf16_with_products<to_few, bundle<tensor<bf16, 3, 7>, tensor<bf16, 5, 6>>,
                              bundle<tensor<double, 3, 7>, tensor<double, 5, 6>>>();
}

TEST_CASE("add") { holds<add, bundle<tensor<double, 5>, tensor<double, 5>>>(); }

TEST_CASE("concat") {
  using square = tensor<double, 3, 3>;
  holds<gpipe::concat<>, bundle<tensor<double, 5>, tensor<double, 2>>>();
  holds<gpipe::concat<>, bundle<square, tensor<double, 3, 1>, square, tensor<double, 3, 7>>>();
  holds<gpipe::concat<0>, bundle<square, tensor<double, 2, 3>>>();
  holds<gpipe::concat<1>, bundle<tensor<double, 2, 1, 3>, tensor<double, 2, 4, 3>>>();
}

TEST_CASE("multiply") { holds<multiply, bundle<tensor<double, 2, 5>, tensor<double, 2, 5>>>(); }

TEST_CASE("split") {
  holds<split<2, 5>, tensor<double, 7>>();
  holds<split<1, 2, 3, 4>, tensor<double, 3, 10>>();
}

TEST_CASE("functions without a derivative") {
  holds<mish, tensor<double, 3, 7>>();
  holds<wave, tensor<double, 9>>();
}

TEST_CASE("batch_norm") {
  holds<batch_norm<>, tensor<double, 9>>();
  holds<batch_norm<1, 1000>, tensor<double, 3, 5>>();
  holds<batch_norm<>, tensor<double, 2, 3, 4>>();
}

TEST_CASE("dropout") {
  holds<dropout<0>, tensor<double, 5>>();
  holds<dropout<10>, tensor<double, 3, 11>>();
  holds<dropout<75>, tensor<double, 16>>();
}

TEST_CASE("dropout of a probability") {
  holds<dropout<0.1>, tensor<double, 3, 11>>();
  holds<dropout<0.375>, tensor<double, 3, 11>>();
}

// change: a layer
TEST_CASE("exact_gelu") {
  holds<exact_gelu, tensor<double, 9>>();
  holds<exact_gelu, tensor<double, 2, 3, 5>>();
  holds<feed_forward<37, exact_gelu>, tensor<double, 3, 5>>();
  holds<gated<exact_gelu>, tensor<double, 3, 34>>();
}

TEST_CASE("sigmoid and tanh") {
  holds<sigmoid_activation, tensor<double, 3, 7>>();
  holds<tanh_activation, tensor<double, 3, 7>>();
  holds<gated<sigmoid_activation>, tensor<double, 3, 6>>();
  holds<feed_forward<7, tanh_activation>, tensor<double, 9>>();
}

TEST_CASE("gelu") {
  holds<gelu, tensor<double, 9>>();
  holds<gelu, tensor<double, 2, 3, 5>>();
}

TEST_CASE("layer_norm") {
  holds<layer_norm, tensor<double, 9>>();
  holds<layer_norm, tensor<double, 3, 17>>();
  holds<layer_norm_with<mean_and_variance{.epsilon = 0.25}>, tensor<double, 3, 17>>();
}

TEST_CASE("linear") {
  holds<linear<5>, tensor<double, 7>>();
  holds<linear<1>, tensor<double, 1>>();
  holds<linear<34>, tensor<double, 2, 10>>();
}

TEST_CASE("linear without a bias") {
  holds<linear<1, no_bias>, tensor<double, 1>>();
  holds<linear<34, no_bias>, tensor<double, 2, 10>>();
}

TEST_CASE("feed_forward") {
  holds<feed_forward<1>, tensor<double, 1>>();
  holds<feed_forward<37>, tensor<double, 3, 5>>();
  holds<feed_forward<7, silu>, tensor<double, 2, 3, 9>>();
  holds<feed_forward<7, mish>, tensor<double, 9>>();
}

TEST_CASE("gated_feed_forward") {
  holds<gated_feed_forward<1>, tensor<double, 1>>();
  holds<gated_feed_forward<37>, tensor<double, 3, 5>>();
}

TEST_CASE("gated") {
  holds<gated<silu>, tensor<double, 2>>();
  holds<gated<gelu>, tensor<double, 3, 34>>();
  holds<gated<mish>, tensor<double, 3, 2, 6>>();
}

TEST_CASE("embedding") {
  holds<embedding<2, 7, double>, tensor<std::int32_t, 5>>();
  holds<embedding<2, 300, times_root_of_width, double>, tensor<std::int32_t, 2, 3>>();
}

TEST_CASE("positions") {
  holds<learned_positions<5>, tensor<double, 5, 3>>();
  holds<learned_positions<9>, tensor<double, 2, 3>>();
  holds<sinusoidal_positions, tensor<double, 70, 3>>();
  holds<sinusoidal_positions, tensor<double, 1, 8>>();
}

TEST_CASE("losses of a distance") {
  holds<mean_absolute_error, tensor<double, 3, 7>>();
  holds<huber_loss<>, tensor<double, 3, 7>>();
  holds<huber_loss<0.3>, tensor<double, 9>>();
  holds<smooth_l1_loss<>, tensor<double, 3, 7>>();
  holds<smooth_l1_loss<0.3>, tensor<double, 9>>();
}

TEST_CASE("silu") { holds<silu, tensor<double, 3, 7>>(); }

TEST_CASE("rms_norm") {
  holds<rms_norm, tensor<double, 9>>();
  holds<loose, tensor<double, 3, 17>>();
}

TEST_CASE("relu") { holds<relu, tensor<double, 3, 7>>(); }

TEST_CASE("attention") {
  holds<gpipe::attention<attention_options{}>, tensor<double, 1, 3>>();
  holds<causal_attention<2>, tensor<double, 5, 8>>();
  holds<causal_groups, tensor<double, 5, 7>>();
  holds<turned, tensor<double, 5, 8>>();
  holds<with_lengths, tensor<double, 5, 8>>();
}

TEST_CASE("cross_attention") {
  holds<to_others, bundle<tensor<double, 3, 8>, tensor<double, 5, 8>>>();
  holds<to_few, bundle<tensor<double, 3, 7>, tensor<double, 5, 6>>>();
  holds<cross_attention<attention_options{.causal = true, .bias = false}>,
        bundle<tensor<double, 5, 4>, tensor<double, 3, 4>>>();
}

TEST_CASE("flatten") { holds<flatten, tensor<double, 3, 4>>(); }

TEST_CASE("reshape") { holds<reshape<4, 3>, tensor<double, 12>>(); }

TEST_CASE("softmax_cross_entropy") {
  holds<softmax_cross_entropy, tensor<double, 10>>();
  holds<softmax_cross_entropy, tensor<double, 3, 17>>();
}

TEST_CASE("softmax_cross_entropy_with") {
  holds<smooth, tensor<double, 10>>();
  holds<ignoring, tensor<double, 3, 17>>();
  holds<clipped, tensor<double, 10>>();
  holds<every_setting, tensor<double, 3, 17>>();
}

TEST_CASE("slices of a head") {
  using carried = tensor<double, 3, 5>;
  using rows = tensor<double, 3, 9>;
  holds<vocabulary_slice<17, 0, 6>, rows>();
  holds<vocabulary_slice<17, 6, 4, false>, bundle<carried, rows>>();
  holds<vocabulary_slice<17, 10, 7>, bundle<tensor<double, 37, 5>, tensor<double, 37, 9>>>();
  holds<vocabulary_slice<17, 0, 6, true, cross_entropy{.smoothing = 0.1, .ignored = 1000, .clip = 0.75}>, rows>();
  holds<vocabulary_slice<17, 6, 7, true, cross_entropy{.smoothing = 0.1, .ignored = 1000, .clip = 0.75}>,
        bundle<carried, rows>>();
  holds<carried_cross_entropy<17>, carried>();
  holds<carried_cross_entropy<17, cross_entropy{.smoothing = 0.1, .ignored = -100}>, carried>();
}

TEST_CASE("token_head") {
  holds<token_head<5>, tensor<double, 7>>();
  holds<token_head<17, no_bias>, tensor<double, 3, 9>>();
  holds<token_head<17, every_setting>, tensor<double, 3, 4>>();
}

TEST_CASE("mean_squared_error") {
  holds<mean_squared_error, tensor<double, 1>>();
  holds<mean_squared_error, tensor<double, 3, 17>>();
}

TEST_CASE("binary_cross_entropy") {
  holds<binary_cross_entropy, tensor<double, 1>>();
  holds<binary_cross_entropy, tensor<double, 3, 17>>();
}

TEST_CASE("conv2d") {
  using map = feature_map<double, 4, 5, 6>;
  holds<conv2d<1, 1>, feature_map<double, 1, 1, 1>>();
  holds<conv2d<3, 3>, map>();
  holds<conv1d<5, 3, conv_options{.stride = 2, .padding = 1}>, tensor<double, 7, 4>>();
  holds<conv2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .bias = false}>, map>();
  holds<conv2d<5, height_width{1, 5}, conv_options{.padding = {0, 2}}>, map>();
  holds<conv2d<2, 2, conv_options{.stride = {1, 3}, .padding = {2, 1}, .dilation = {3, 2}}>, map>();
  holds<conv2d<4, 3, conv_options{.padding = 1, .groups = 4}>, map>();
}

TEST_CASE("conv_transpose2d") {
  using map = feature_map<double, 4, 3, 2>;
  holds<conv_transpose2d<3, 2, conv_options{.stride = 2}>, map>();
  holds<
      conv_transpose2d<6, 3, conv_options{.stride = 2, .padding = 1, .groups = 2, .bias = false, .output_padding = 1}>,
      map>();
  holds<conv_transpose2d<2, height_width{3, 2}, conv_options{.stride = {3, 1}, .dilation = {1, 2}}>, map>();
}

TEST_CASE("pooling") {
  using map = feature_map<double, 3, 5, 7>;
  holds<max_pool<2>, map>();
  holds<max_pool<3, pool_options{.stride = 2, .padding = 1}>, map>();
  holds<max_pool<height_width{3, 2}, pool_options{.stride = 1}>, map>();
  holds<max_pool<2, pool_options{.stride = 3}>, map>();
  holds<average_pool<2>, map>();
  holds<average_pool<3, pool_options{.stride = 2, .padding = 1}>, map>();
  holds<average_pool<3, pool_options{.stride = 1, .padding = 1, .count_padding = false}>, map>();
  holds<average_pool<height_width{1, 3}, pool_options{.stride = {2, 1}}>, map>();
  holds<global_average_pool, map>();
  holds<global_average_pool, feature_map<double, 40, 1, 3>>();
}

TEST_CASE("layers of feature maps") {
  using map = feature_map<double, 5, 3, 4>;
  holds<batch_norm<>, map>();
  holds<batch_norm<1, 1000>, feature_map<double, 35, 2, 1>>();
  holds<instance_norm<>, map>();
  holds<group_norm<1>, map>();
  holds<group_norm<7>, feature_map<double, 35, 2, 3>>();
  holds<affine_instance_norm<>, map>();
  holds<instance_norm<1000>, feature_map<double, 35, 2, 3>>();
  holds<channel_dropout<0>, map>();
  holds<channel_dropout<40>, feature_map<double, 35, 2, 3>>();
  holds<leaky_relu<>, map>();
  holds<leaky_relu<300>, tensor<double, 7>>();
  holds<upsample<2>, map>();
  holds<upsample<height_width{1, 3}>, map>();
  holds<pad<1, 2, 0, 3>, map>();
  holds<pad<-1, 1, -1, 1>, map>();
  holds<pad<2, -3, -2, 0>, map>();
  holds<pad_to<4, 4>, map>();
  holds<gpipe::concat<>, bundle<map, feature_map<double, 2, 3, 4>, map>>();
  holds<add, bundle<map, map>>();
  holds<gelu, map>();
  holds<dropout<30>, map>();
  holds<flatten, map>();
  holds<mean_squared_error, map>();
}
