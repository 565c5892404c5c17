// optimize: kernels

// Law: the bits of a sample do not depend on the samples beside it, whatever instructions the compiler chooses. So a
// prediction is the same in any batch, and a short last micro-batch rounds as a full one does.

#include <gpipe/tools/testing/layer_fixture.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include <gpipe/layer.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr int all_samples = 21;

/// A layer's buffers for some number of samples, and its refresh, forward and backward of the input.
struct runs_of_layer {
  host::layer_buffers& buffers;
  void (*run)(host::layer_buffers&);
};

std::size_t bytes_of_sample(const host::guarded_buffer& of, int samples) {
  return of.bytes() / static_cast<std::size_t>(samples);
}

/// Copies the samples [first, first + count) of `all`.
void hand_over(const std::vector<host::guarded_buffer>& all, std::vector<host::guarded_buffer>& some, int first,
               int count) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t size = bytes_of_sample(all[i], all_samples);
    std::memcpy(some[i].data(), all[i].data() + size * static_cast<std::size_t>(first),
                size * static_cast<std::size_t>(count));
  }
}

void same_bits(std::string_view layer, const std::vector<host::guarded_buffer>& all,
               const std::vector<host::guarded_buffer>& some, int first, int count) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_floating(all[i].type())) continue;
    const std::size_t size = bytes_of_sample(all[i], all_samples);
    CAPTURE(layer);
    CAPTURE(all[i].name());
    CAPTURE(first);
    CAPTURE(count);
    CHECK(std::memcmp(some[i].data(), all[i].data() + size * static_cast<std::size_t>(first),
                      size * static_cast<std::size_t>(count)) == 0);
  }
}

/// Runs the layer with all samples, and again with the samples [first, first + count) alone.
void compare(std::string_view layer, const runs_of_layer& whole, const runs_of_layer& part, int first, int count) {
  host::layer_buffers &all = whole.buffers, &some = part.buffers;
  all.randomize(5);
  std::memcpy(some.parameters[0].data(), all.parameters[0].data(), all.parameters[0].bytes());
  std::memcpy(some.state[0].data(), all.state[0].data(), all.state[0].bytes());
  hand_over(all.in, some.in, first, count);
  hand_over(all.out_gradient, some.out_gradient, first, count);
  hand_over(all.fields, some.fields, first, count);
  some.call().random.first_sample = all.call().random.first_sample + static_cast<std::uint32_t>(first);
  for (const bool training : {true, false}) {
    all.call().training = some.call().training = training;
    whole.run(all), part.run(some);
    same_bits(layer, all.out, some.out, first, count);
    same_bits(layer, all.in_gradient, some.in_gradient, first, count);
  }
}

template <class Fixture>
runs_of_layer runs_of(Fixture& fixture) {
  return {fixture, [](host::layer_buffers& it) {
            auto& t = static_cast<Fixture&>(it);
            t.refresh();
            t.forward();
            t.backward_input();
          }};
}

template <class Layer, class In>
void holds() {
  host::layer_fixture<Layer, In> all(all_samples, all_samples), one(1, 1), some(6, 6);
  for (int first = 0; first < all_samples; first += 4) compare(type_name<Layer>, runs_of(all), runs_of(one), first, 1);
  for (const int first : {0, 5, all_samples - 6}) compare(type_name<Layer>, runs_of(all), runs_of(some), first, 6);
}
template <class Layer, int... N>
void holds_in_every_type() {
  holds<Layer, tensor<float, N...>>();
  holds<Layer, tensor<double, N...>>();
  holds<Layer, tensor<bf16, N...>>();
}

template <class T>
using map = feature_map<T, 19, 5, 7>;

struct mish : pointwise<mish> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x * math::tanh(math::log(1 + math::exp(x)));
  }
};

}  // namespace

TEST_CASE("row bits: functions of elements") {
  // change: a layer
  holds_in_every_type<gelu, 37>();
  holds_in_every_type<exact_gelu, 37>();
  holds<sigmoid_activation, tensor<float, 37>>();
  holds<tanh_activation, tensor<bf16, 37>>();
  holds<leaky_relu<0.2>, tensor<float, 37>>();
  holds<dropout<0.375>, tensor<float, 3, 11>>();
  holds<mish, tensor<float, 37>>();
  holds<silu, tensor<float, 3, 7>>();
  holds<relu, tensor<float, 37>>();
  holds<leaky_relu<>, tensor<float, 37>>();
  holds<gated<silu>, tensor<float, 3, 22>>();
  holds<gated<gelu>, tensor<double, 3, 22>>();
  holds<dropout<10>, tensor<float, 3, 11>>();
  holds<multiply, bundle<tensor<float, 37>, tensor<float, 37>>>();
  holds<add, bundle<tensor<bf16, 37>, tensor<bf16, 37>>>();
}

TEST_CASE("row bits: norms, positions and losses") {
  holds_in_every_type<layer_norm, 37>();
  holds<layer_norm, tensor<float, 3, 5>>();
  holds<rms_norm, tensor<float, 37>>();
  holds<learned_positions<5>, tensor<float, 3, 17>>();
  holds<sinusoidal_positions, tensor<float, 3, 17>>();
  holds<softmax_cross_entropy, tensor<float, 3, 17>>();
  holds<mean_squared_error, tensor<float, 37>>();
  holds<binary_cross_entropy, tensor<float, 3, 17>>();
  holds<embedding<2, 37, times_root_of_width, float>, tensor<std::int32_t, 5>>();
}

TEST_CASE("row bits: layers of feature maps") {
  holds<instance_norm<>, map<float>>();
  holds<group_norm<1>, map<float>>();
  holds<affine_instance_norm<>, map<float>>();
  holds<channel_dropout<40>, map<float>>();
  holds<max_pool<3, pool_options{.stride = 2, .padding = 1}>, map<float>>();
  holds<average_pool<3, pool_options{.stride = 2, .padding = 1}>, map<float>>();
  holds<global_average_pool, map<float>>();
  holds<upsample<2>, map<float>>();
}

TEST_CASE("row bits: products") {
  holds_in_every_type<linear<34>, 37>();
  holds_in_every_type<linear<10>, 37>();  // one vector, whose sums libxsmm might split
  holds<linear<100, no_bias>, tensor<float, 3, 19>>();
  holds<feed_forward<37>, tensor<float, 3, 17>>();
  holds<gated_feed_forward<37>, tensor<bf16, 3, 17>>();
  holds<token_head<17>, tensor<float, 3, 9>>();
  holds<vocabulary_slice<17, 0, 6>, tensor<float, 3, 9>>();
  holds<vocabulary_slice<17, 6, 11>, bundle<tensor<float, 3, 5>, tensor<float, 3, 9>>>();
  holds<vocabulary_slice<17, 6, 11>, bundle<tensor<float, 3, 5>, tensor<bf16, 3, 9>>>();
}

TEST_CASE("row bits: convolutions") {
  using padded = conv2d<21, 3, conv_options{.padding = 1}>;
  holds<padded, map<float>>();
  holds<padded, map<double>>();
  holds<padded, map<bf16>>();
  holds<conv2d<19, 3, conv_options{.padding = 1, .groups = 19}>, map<float>>();
  holds<conv_transpose2d<5, 2, conv_options{.stride = 2}>, map<float>>();
}

TEST_CASE("row bits: attention") {
  using causal = gpipe::attention<attention_options{.heads = 2, .head_width = 20, .causal = true}>;
  holds_in_every_type<causal, 9, 40>();
  holds<gpipe::attention<attention_options{.heads = 2, .rotary = 100}>, tensor<float, 7, 36>>();
}
