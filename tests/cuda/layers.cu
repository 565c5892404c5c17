#include <gpipe/cuda/cuda.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/layer/loss/auxiliary_loss.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/runtime/binding/kernel_table.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/larger_error.hpp"
#include "support/on_gpu.hpp"

// Compares every layer on a GPU with the host: one text, two devices.

using namespace gpipe;

namespace {

struct softplus : pointwise<softplus> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x + math::exp(-x);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T derivative(T x) {
    return T(1) - math::exp(-x);
  }
};

struct mish : pointwise<mish> {  // its derivative comes from dual numbers
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x * math::tanh(math::log(1 + math::exp(x)));
  }
};

// Losses with settings: some labels are ignored, and some of the inputs, which are below 1.5, are clipped.
using smooth = softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1}>;
using ignoring = softmax_cross_entropy_with<cross_entropy{.ignored = -100}>;
using clipped = softmax_cross_entropy_with<cross_entropy{.clip = 1.2}>;
using every_setting = softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1, .ignored = 1000, .clip = 0.75}>;
template <class Loss>
using in_the_middle = gpipe::detail::auxiliary_loss<auxiliary<"early", 400, Loss>, Loss>;

/// The buffers of a layer_fixture, copied to a GPU's memory.
template <class Fixture>
class moved {
 public:
  moved(const gpipe::cuda::context& context, Fixture& from) : from_(from), call_(from.call()) {
    each_buffer([&](host::guarded_buffer& b) {
      copies_.push_back(std::make_unique<on_gpu<std::byte>>(context, b.data(), b.bytes()));
    });
    const auto move = [&](auto*& at) {
      std::size_t i = 0;
      bool done = false;
      each_buffer([&](host::guarded_buffer& b) {
        if (!done && reinterpret_cast<const std::byte*>(at) == b.data())
          at = reinterpret_cast<std::remove_reference_t<decltype(at)>>(copies_[i]->data()), done = true;
        ++i;
      });
    };
    for (int i = 0; i < max_tensors_per_edge; ++i)
      move(call_.in[i]), move(call_.out[i]), move(call_.in_gradient[i]), move(call_.out_gradient[i]);
    for (auto& field : call_.fields) move(field);
    move(call_.parameters), move(call_.state), move(call_.derived), move(call_.gradients), move(call_.extras);
    move(call_.backward_extras), move(call_.forward_workspace), move(call_.workspace), move(call_.partials);
  }

  const gpipe::detail::call& call() const { return call_; }

  /// Copies all buffers back into the fixture.
  void back() {
    std::size_t i = 0;
    each_buffer([&](host::guarded_buffer& b) {
      const auto bits = copies_[i++]->back();
      if (!bits.empty()) std::memcpy(b.data(), bits.data(), bits.size());
    });
  }

 private:
  template <class F>
  void each_buffer(F f) {
    for (auto* list : {&from_.in, &from_.out, &from_.in_gradient, &from_.out_gradient, &from_.parameters,
                       &from_.gradients, &from_.state, &from_.derived, &from_.extras, &from_.backward_extras,
                       &from_.forward_workspace, &from_.workspace, &from_.partials, &from_.fields})
      for (auto& b : *list) f(b);
  }

  Fixture& from_;
  gpipe::detail::call call_;
  std::vector<std::unique_ptr<on_gpu<std::byte>>> copies_;
};

double worst(const std::vector<host::guarded_buffer>& got, const std::vector<host::guarded_buffer>& want) {
  double largest = 0;
  for (std::size_t b = 0; b < want.size(); ++b)
    for (std::size_t i = 0; i < want[b].count(); ++i) {
      const double x = got[b].get(i), y = want[b].get(i), off = std::fabs(x - y) / (std::fmax)(1.0, std::fabs(y));
      if (!(std::isnan(x) && std::isnan(y))) largest = larger_error(largest, off);  // NaN: not captured
    }
  return largest;
}

/// One for all layers: each has a workspace of 32 MiB.
const gpipe::cuda::context& a_gpu() {
  static const gpipe::cuda::context only;
  return only;
}

enum class field_values { drawn, zero };

/// Forward as an evaluation runs it: without dropout or clipping, with the averages of a batch norm.
template <class Layer, class Input>
void agrees_in_evaluation(double tolerance, int samples) {
  using layer_fixture = host::layer_fixture<Layer, Input>;
  const auto row = gpipe::detail::entry_points<typename layer_fixture::bound, gpipe::cuda::context>::row();
  CAPTURE(std::string(layer_fixture::bound::name));
  layer_fixture want(samples, 16), got(samples, 16);
  for (auto* fixture : {&want, &got}) fixture->randomize(6), fixture->call().training = false;
  const auto& there = a_gpu();
  moved<layer_fixture> there_(there, got);
  if (row.prepare != nullptr) row.prepare(there, 16, &layer_fixture::bound::lists);
  if (row.refresh != nullptr) row.refresh(there, there_.call());
  row.forward(there, there_.call());
  there_.back();
  want.refresh(), want.forward();
  CHECK(worst(got.out, want.out) < tolerance);
  if (want.declared().state.empty()) CHECK(worst(got.partials, want.partials) < tolerance);
}

/// Numbers differ by at most `tolerance`, relative to their size if it is above 1.
template <class Layer, class Input>
void agrees(double tolerance, const std::vector<int>& all_samples, field_values fields = field_values::drawn) {
  using layer_fixture = host::layer_fixture<Layer, Input>;
  const auto row = gpipe::detail::entry_points<typename layer_fixture::bound, gpipe::cuda::context>::row();
  for (const int samples : all_samples) {
    CAPTURE(std::string(layer_fixture::bound::name));
    CAPTURE(samples);
    layer_fixture want(samples, 16), got(samples, 16);
    for (auto* fixture : {&want, &got}) {
      fixture->randomize(5);
      auto& gradients = fixture->gradients[0];  // backward adds to them
      for (std::size_t i = 0; i < gradients.count(); ++i) gradients.set(i, 0.25);
      if (fields == field_values::zero)
        for (auto& field : fixture->fields) field.clear();
    }
    const auto& there = a_gpu();
    moved<layer_fixture> there_(there, got);
    if (row.prepare != nullptr) row.prepare(there, 16, &layer_fixture::bound::lists);
    const gpipe::detail::kernel_row::kernel kernels[] = {row.refresh, row.forward, row.backward_input,
                                                         row.backward_parameters, row.update_state};
    for (const auto kernel : kernels)
      if (kernel != nullptr) kernel(there, there_.call());
    there_.back();
    want.refresh(), want.forward(), want.backward(), want.update_state();
    CHECK(worst(got.out, want.out) < tolerance);
    CHECK(worst(got.in_gradient, want.in_gradient) < tolerance);
    CHECK(worst(got.gradients, want.gradients) < tolerance);
    CHECK(worst(got.partials, want.partials) < tolerance);
    CHECK(worst(got.state, want.state) < tolerance);
  }
  agrees_in_evaluation<Layer, Input>(tolerance, all_samples.front());
}
template <class Layer, class Input>
void agrees(double tolerance) {
  agrees<Layer, Input>(tolerance, short_settings ? std::vector{5} : std::vector{1, 5, 16});
}
/// In one row, and in three.
template <class Layer, class Input>
void agrees_in_few_rows(double tolerance, field_values fields = field_values::drawn) {
  agrees<Layer, Input>(tolerance, {1, 3}, fields);
}

// nvcc takes a minute for each type.
#if GPIPE_TEST_FEW
#define ODD_EXTENTS_TYPES float
constexpr bool every_type = false;
#else
#define ODD_EXTENTS_TYPES float, double, bf16
constexpr bool every_type = true;
#endif

}  // namespace

// Sums of up to a few hundred numbers near 1, in another order; bf16 has 8 bits, and small differences may round in
// different directions.
TEST_CASE_TEMPLATE("each layer agrees with the host's", T, float, bf16) {
  constexpr double few = std::is_same_v<T, float> ? 1e-5 : 3e-2;
  // Each addition of a sum may round in another direction, by half the spacing of the sum so far: of up to `largest`.
  const auto sum = [](int terms, double largest) { return terms * largest * 0x1p-24; };
  agrees<add, bundle<tensor<T, 9>, tensor<T, 9>>>(few);
  agrees<multiply, bundle<tensor<T, 9>, tensor<T, 9>>>(few);
  agrees<concat<>, bundle<tensor<T, 3, 9>, tensor<T, 3, 2>, tensor<T, 3, 4>>>(few);
  agrees<split<30, 3>, tensor<T, 5, 33>>(few);
  agrees<relu, tensor<T, 33>>(few);
  // change: a layer
  agrees<gelu, tensor<T, 33>>(few);
  agrees<softplus, tensor<T, 33>>(few);
  agrees<mish, tensor<T, 33>>(few);
  agrees<dropout<30>, tensor<T, 33>>(few);
  agrees<layer_norm, tensor<T, 3, 70>>(few);
  agrees<batch_norm<>, tensor<T, 40>>(10 * few);
  agrees<batch_norm<>, tensor<T, 3, 5, 7>>(10 * few);
  agrees<linear<24>, tensor<T, 3, 40>>(few);
  agrees<attention<attention_options{.heads = 4, .key_heads = 2, .causal = true, .rotary = 100, .padded = true}>,
         tensor<T, 5, 24>>(2 * few);
  agrees<cross_attention<attention_options{.heads = 2, .padded = true}>, bundle<tensor<T, 4, 8>, tensor<T, 3, 6>>>(few);
  // Its keys' and values' weights begin at elements 225 and 450 of one parameter. A GPU rounds the softmax to bf16.
  agrees<cross_attention<attention_options{.heads = 3}>, bundle<tensor<T, 4, 15>, tensor<T, 3, 15>>>(2 * few);
  agrees<linear<24, no_bias>, tensor<T, 3, 40>>(few);
  agrees<gated<silu>, tensor<T, 5, 34>>(few);
  agrees<gated<mish>, tensor<T, 5, 34>>(few);
  agrees<silu, tensor<T, 33>>(few);
  agrees<rms_norm, tensor<T, 3, 70>>(few);
  agrees<feed_forward<24>, tensor<T, 3, 10>>(5 * few);
  agrees<feed_forward<24, relu>, tensor<T, 3, 10>>(5 * few);
  agrees<gated_feed_forward<24>, tensor<T, 3, 10>>(5 * few);
  agrees<learned_positions<4>, tensor<T, 3, 10>>(few);
  agrees<sinusoidal_positions, tensor<T, 70, 10>>(few);
  agrees<embedding<2, 300, T, times_root_of_width>, tensor<std::int32_t, 2, 5>>(few + sum(32, 100));
  agrees<softmax_cross_entropy, tensor<T, 2, 300>>(few);
  // Rows of more than 1024 elements have a block of a GPU each, others a warp.
  agrees_in_few_rows<layer_norm, tensor<T, 1100>>(2 * few);
  agrees_in_few_rows<rms_norm, tensor<T, 1100>>(2 * few);
  agrees_in_few_rows<softmax_cross_entropy, tensor<T, 1100>>(2 * few);
  if constexpr (std::is_same_v<T, float> || every_type) {  // nvcc takes minutes for all in two types
    agrees<exact_gelu, tensor<T, 33>>(few);
    agrees<sigmoid_activation, tensor<T, 33>>(few);
    agrees<tanh_activation, tensor<T, 33>>(few);
    agrees<dropout<0.375>, tensor<T, 33>>(few);
    agrees<leaky_relu<0.01>, tensor<T, 33>>(few);
    agrees<gated<leaky_relu<0.2>>, tensor<T, 5, 34>>(few);
    agrees<feed_forward<24, leaky_relu<0.2>>, tensor<T, 3, 10>>(5 * few);
    agrees<feed_forward<24, exact_gelu>, tensor<T, 3, 10>>(5 * few);
    agrees<layer_norm_with<mean_and_variance{.epsilon = 0.25}>, tensor<T, 3, 70>>(few);
    agrees<ignoring, tensor<T, 3, 17>>(few);
    agrees<every_setting, tensor<T, 3, 17>>(few);
    agrees<mean_squared_error, tensor<T, 3, 17>>(few);
    agrees<binary_cross_entropy, tensor<T, 3, 17>>(few);
    agrees<in_the_middle<softmax_cross_entropy>, tensor<T, 33>>(few);
    agrees<in_the_middle<mean_squared_error>, tensor<T, 33>>(few);
    agrees<token_head<37>, tensor<T, 3, 10>>(few);
    agrees<token_head<17, no_bias, every_setting>, tensor<T, 3, 4>>(few);
    agrees<bias, tensor<T, 3, 70>>(few);
    agrees<rms_norm_with<root_mean_square{.epsilon = 0.25}>, tensor<T, 3, 17>>(few);
    agrees<batch_norm<1, 1000>, tensor<T, 3, 5>>(10 * few);
    agrees<attention<attention_options{.heads = 2, .bias = false, .rotary = 100}>, tensor<T, 5, 8>>(2 * few);
    agrees<attention<attention_options{.heads = 4, .key_heads = 2, .head_width = 3, .causal = true}>, tensor<T, 5, 7>>(
        2 * few);
    agrees<cross_attention<attention_options{.causal = true, .bias = false}>, bundle<tensor<T, 5, 4>, tensor<T, 3, 4>>>(
        few);
  }

  using map = feature_map<T, 6, 5, 7>;
  agrees<conv2d<9, 3, conv_options{.stride = 2, .padding = 1}>, map>(2 * few);
  agrees<conv2d<4, height_width{1, 3}, conv_options{.dilation = 2, .groups = 2, .bias = false}>, map>(2 * few);
  agrees<conv2d<6, 3, conv_options{.padding = 2, .groups = 6}>, map>(2 * few);
  agrees<conv1d<6, 3, conv_options{.stride = 2, .padding = 1}>, tensor<T, 7, 4>>(2 * few);
  agrees<conv_transpose2d<4, 3, conv_options{.stride = 2, .groups = 2}>, map>(2 * few);
  agrees<conv_transpose2d<6, 3, conv_options{.stride = 2, .padding = 1, .bias = false, .output_padding = 1}>, map>(2 *
                                                                                                                   few);
  agrees<conv_transpose2d<2, height_width{3, 2}, conv_options{.stride = {3, 1}, .dilation = {1, 2}}>, map>(2 * few);
  agrees<conv2d<2, 2, conv_options{.stride = {1, 3}, .padding = {2, 1}, .dilation = {3, 2}}>, map>(2 * few);
  using wide_map = feature_map<T, 40, 3, 5>;  // products in tiles, with pixels, channels and sums that end within one
  agrees<conv2d<70, 3, conv_options{.stride = 2, .padding = 1}>, wide_map>(5 * few);
  agrees<conv2d<38, height_width{1, 3}, conv_options{.dilation = 2, .groups = 2, .bias = false}>, wide_map>(5 * few);
  agrees<conv_transpose2d<20, 3, conv_options{.stride = 2}>, wide_map>(5 * few);
  agrees<max_pool<3, pool_options{.stride = 2, .padding = 1}>, map>(few);
  agrees<max_pool<3, pool_options{.stride = 1, .padding = 1}>, map>(few);
  agrees<average_pool<2, pool_options{.padding = 1, .count_padding = false}>, map>(few);
  agrees<average_pool<3, pool_options{.stride = 1, .padding = 1, .count_padding = false}>, map>(few);
  agrees<average_pool<height_width{1, 3}, pool_options{.stride = {2, 1}}>, map>(few);
  agrees<max_pool<height_width{3, 2}, pool_options{.stride = 1}>, map>(few);
  agrees<max_pool<2, pool_options{.stride = 3}>, map>(few);
  agrees<global_average_pool, feature_map<T, 40, 2, 3>>(few);
  agrees<batch_norm<>, feature_map<T, 40, 3, 3>>(10 * few);
  agrees<batch_norm<>, feature_map<T, 300, 2, 1>>(10 * few);
  agrees<instance_norm<>, feature_map<T, 40, 3, 3>>(10 * few);
  agrees<group_norm<4>, feature_map<T, 40, 3, 3>>(10 * few);
  agrees<channel_dropout<30>, feature_map<T, 40, 2, 3>>(few);
  agrees<leaky_relu<>, map>(few);
  agrees<upsample<2>, map>(few);
  agrees<pad<1, -1, 0, 2>, map>(few);
  agrees<pad<2, -3, -2, 0>, map>(few);
  agrees<upsample<height_width{1, 3}>, map>(few);
  agrees<concat<>, bundle<map, feature_map<T, 3, 5, 7>>>(few);
  agrees<concat<0>, bundle<tensor<T, 3, 3>, tensor<T, 2, 3>>>(few);
}

TEST_CASE_TEMPLATE("each layer agrees with the host's at widths 1 and 257, in one row and without keys", T,
                   ODD_EXTENTS_TYPES) {
  constexpr double few = std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, float> ? 1e-5 : 3e-2;
  using one = tensor<T, 1>;
  using wide = tensor<T, 257>;
  const auto of_elements = []<class... Layers>(std::type_identity<Layers>...) {
    (agrees_in_few_rows<Layers, one>(few), ...);
    (agrees_in_few_rows<Layers, wide>(few), ...);
  };
  of_elements(std::type_identity<relu>(), std::type_identity<leaky_relu<>>(), std::type_identity<gelu>(),
              std::type_identity<silu>(), std::type_identity<mish>(), std::type_identity<dropout<30>>(),
              std::type_identity<layer_norm>(), std::type_identity<rms_norm>(), std::type_identity<linear<1>>(),
              std::type_identity<linear<257>>(), std::type_identity<mean_squared_error>(),
              std::type_identity<mean_absolute_error>(), std::type_identity<huber_loss<0.3>>(),
              std::type_identity<smooth_l1_loss<0.3>>(), std::type_identity<binary_cross_entropy>(),
              std::type_identity<softmax_cross_entropy>(), std::type_identity<smooth>(), std::type_identity<clipped>(),
              std::type_identity<bias>(), std::type_identity<in_the_middle<softmax_cross_entropy>>());
  agrees_in_few_rows<batch_norm<>, one>(10 * few);
  agrees_in_few_rows<batch_norm<>, wide>(10 * few);
  agrees_in_few_rows<add, bundle<one, one>>(few);
  agrees_in_few_rows<add, bundle<wide, wide>>(few);
  agrees_in_few_rows<multiply, bundle<one, one>>(few);
  agrees_in_few_rows<multiply, bundle<wide, wide>>(few);
  agrees_in_few_rows<concat<>, bundle<one, wide>>(few);
  agrees_in_few_rows<split<256, 1>, wide>(few);
  agrees_in_few_rows<gated<silu>, tensor<T, 2>>(few);
  agrees_in_few_rows<gated<silu>, tensor<T, 514>>(few);
  agrees_in_few_rows<feed_forward<257>, one>(5 * few);
  agrees_in_few_rows<feed_forward<1>, wide>(5 * few);
  agrees_in_few_rows<gated_feed_forward<257>, one>(5 * few);
  agrees_in_few_rows<gated_feed_forward<1>, wide>(5 * few);
  agrees_in_few_rows<token_head<257>, tensor<T, 1, 17>>(few);
  agrees_in_few_rows<token_head<1>, tensor<T, 3, 17>>(few);
  agrees_in_few_rows<learned_positions<1>, tensor<T, 1, 257>>(few);
  agrees_in_few_rows<learned_positions<257>, tensor<T, 257, 1>>(few);
  agrees_in_few_rows<sinusoidal_positions, tensor<T, 1, 257>>(few);
  agrees_in_few_rows<sinusoidal_positions, tensor<T, 257, 1>>(few);
  agrees_in_few_rows<embedding<2, 257, T>, tensor<std::int32_t, 1>>(few);
  agrees_in_few_rows<embedding<2, 1, T>, tensor<std::int32_t, 17>>(few);

  agrees_in_few_rows<attention<attention_options{.heads = 1}>, tensor<T, 1, 1>>(2 * few);
  // 17 tokens are a tile and one more, and a head's width is odd.
  using causal = attention<attention_options{.heads = 3, .key_heads = 1, .causal = true, .padded = true}>;
  // In bf16 the host's own gradients of the weights, of numbers up to 86, are off those in double by up to 0.24, and
  // off an H100's by up to 0.37.
  agrees_in_few_rows<causal, tensor<T, 17, 51>>((std::is_same_v<T, bf16> ? 20 : 5) * few);
  agrees_in_few_rows<causal, tensor<T, 17, 51>>(5 * few, field_values::zero);  // no query sees a key
  using cross = cross_attention<attention_options{.heads = 1, .padded = true}>;
  agrees_in_few_rows<cross, bundle<tensor<T, 1, 5>, tensor<T, 17, 3>>>(5 * few);
  agrees_in_few_rows<cross, bundle<tensor<T, 17, 1>, tensor<T, 1, 3>>>(5 * few, field_values::zero);

  using pixel = feature_map<T, 1, 1, 1>;
  using channels = feature_map<T, 257, 1, 1>;
  using map = feature_map<T, 1, 3, 5>;
  agrees_in_few_rows<conv2d<1, 1>, pixel>(few);
  agrees_in_few_rows<conv2d<1, 3, conv_options{.padding = 1}>, channels>(5 * few);
  agrees_in_few_rows<conv2d<257, 3, conv_options{.stride = 2, .padding = 1}>, map>(5 * few);
  agrees_in_few_rows<conv2d<17, 1>, channels>(5 * few);  // in tiles
  agrees_in_few_rows<conv_transpose2d<1, 2>, pixel>(few);
  agrees_in_few_rows<conv_transpose2d<17, 2, conv_options{.stride = 2}>, channels>(5 * few);
  agrees_in_few_rows<conv_transpose2d<3, 3>, map>(5 * few);
  agrees_in_few_rows<max_pool<1>, channels>(few);
  agrees_in_few_rows<max_pool<3, pool_options{.stride = 2, .padding = 1}>, map>(few);
  agrees_in_few_rows<average_pool<1>, channels>(few);
  agrees_in_few_rows<average_pool<3, pool_options{.stride = 2, .padding = 1}>, map>(few);
  agrees_in_few_rows<global_average_pool, channels>(few);
  agrees_in_few_rows<global_average_pool, map>(few);
  agrees_in_few_rows<batch_norm<>, map>(10 * few);
  agrees_in_few_rows<instance_norm<>, map>(10 * few);
  agrees_in_few_rows<instance_norm<>, channels>(10 * few);
  agrees_in_few_rows<affine_instance_norm<>, map>(10 * few);
  agrees_in_few_rows<group_norm<1>, channels>(10 * few);
  agrees_in_few_rows<channel_dropout<30>, channels>(few);
  agrees_in_few_rows<upsample<3>, channels>(few);
  agrees_in_few_rows<upsample<2>, map>(few);
  agrees_in_few_rows<pad<0, 1, -1, 0>, map>(few);
  agrees_in_few_rows<concat<>, bundle<map, map>>(few);
}
