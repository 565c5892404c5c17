#include <gpipe/layer/contract/initialized.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;
using namespace gpipe::detail;
using enum initializer::kind;

namespace {

// A Transformer's feed-forward layer as GPT-2 begins it, with 12 blocks.
constexpr initializer narrow = initializer::deviation(0.02);
using wide = bound<initialized<feed_forward<32>, narrow, narrow.over_root(24)>, tensor<float, 3, 8>>;
using plain = bound<feed_forward<32>, tensor<float, 3, 8>>;
static_assert(wide::name == plain::name && wide::parameters.size() == 4);
static_assert(wide::parameters[0].first.scale == 0.02 && wide::parameters[0].first.divisor == 1);
static_assert(wide::parameters[2].first.scale == 0.02 && wide::parameters[2].first.divisor == 24);
static_assert(wide::parameters[1].first.drawn == zeros && wide::parameters[3].first.drawn == zeros);
static_assert(wide::extras[0].size == plain::extras[0].size && wide::cost.forward == plain::cost.forward);

// The last rule serves for further matrices; ones stay ones.
using three = bound<initialized<gated_feed_forward<4>, initializer::zeros(), narrow>, tensor<float, 8>>;
static_assert(three::parameters[0].first.drawn == zeros && three::parameters[2].first.drawn == normal);
using norm = bound<initialized<layer_norm, narrow>, tensor<float, 8>>;
static_assert(norm::parameters[0].first.drawn == ones && norm::parameters[1].first.drawn == zeros);

// So does another constant.
struct scaled {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {
        {"weight", {N, 2}}, {"slope", {N}, initializer::constant(0.25)}, {"bias", {N}, initializer::uniform(N)}};
  };
};
using sloped = bound<initialized<scaled, narrow>, tensor<float, 8>>;
static_assert(sloped::parameters[0].first.drawn == normal && sloped::parameters[2].first.drawn == zeros);
static_assert(sloped::parameters[1].first.drawn == initializer::kind::constant &&
              sloped::parameters[1].first.scale == 0.25);

template <class Layer, class In>
concept takes = requires {
  sizeof(typename Layer::template on<In>);
};
static_assert(!takes<initialized<linear<8>, narrow>, tensor<std::int32_t, 8>>);
static_assert(!takes<initialized<relu, narrow>, tensor<float, 8>>);

// Xavier: inputs and outputs of {out, in, window...}.
static_assert(initializer::xavier().of({6, 10}).fan_in == 16 &&
              initializer::xavier().of({6, 10}).drawn == initializer::kind::uniform);
static_assert(initializer::xavier().of({6, 10, 3, 3}).fan_in == 16 * 9);
static_assert(initializer::uniform(0).of({6, 10, 3}).fan_in == 30 && initializer::uniform(7).of({6, 10}).fan_in == 7);

// A convolution's weight is {window..., in, out}; ResNet's rule draws it by its outputs.
using convolution = conv2d<10, 3>::on<feature_map<float, 6, 8, 8>>;
using by_outputs = initialized<conv2d<10, 3>, initializer::kaiming()>::on<feature_map<float, 6, 8, 8>>;
static_assert(convolution::parameters[0].extents == gpipe::detail::shape{3, 3, 6, 10});
static_assert(convolution::parameters[0].first.of({3, 3, 6, 10}).fan_in == 54);
static_assert(by_outputs::parameters[0].first.of({3, 3, 6, 10}).fan_in == 90);
static_assert(initializer::xavier().with_outputs_last().of({3, 3, 6, 10}).fan_in == 16 * 9);

// The slices of a head are drawn as rows of the whole weight, also if they are tied.
template <class Head>
struct ending_in : model<input<float, 4, 8>, named<"head", Head>> {};
using sliced = initialized<token_head<10, gpipe::slices<3>>, initializer::xavier()>;
constexpr const network& cut = network_of<ending_in<sliced>>;
static_assert(cut.layer_count == 4 && cut.type_of(1).parameters[0].extents == shape{3, 8});
static_assert(cut.type_of(1).parameters[0].first.drawn == initializer::kind::uniform);
static_assert(cut.type_of(1).parameters[0].first.of({3, 8}).fan_in == 18);
static_assert(cut.type_of(1).parameters[1].first.drawn == zeros);
static_assert(std::string_view(cut.type_of(1).name) ==
              network_of<ending_in<token_head<10, gpipe::slices<3>>>>.type_of(1).name);
static_assert(network_of<ending_in<tied<"a", sliced>>>.type_of(2).parameters[0].first.of({3, 8}).fan_in == 18);
static_assert(network_of<ending_in<tied<"a", sliced>>>.parameters() == 10 * 8 + 10);

struct net : model<input<std::int32_t, 4>, named<"wte", tied<"words", initialized<embedding<16, 8>, narrow>>>,
                   repeat<2, residual<named<"norm", rms_norm>,
                                      named<"fc", initialized<linear<8>, initializer::xavier().over_root(2)>>>>,
                   named<"head", linear<16, no_bias>>, softmax_cross_entropy> {};

std::vector<float> values(int stages, const char* path) {
  const trainer<net, sgd> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 2}, sgd{});
  return training.parameter(path);
}

}  // namespace

TEST_CASE("the rules give the first values, whatever the cut") {
  const std::vector<float> words = values(1, "wte.weight"), weight = values(1, "1.1.fc.weight");
  CHECK(words == values(3, "wte.weight"));
  CHECK(weight == values(3, "1.1.fc.weight"));
  double squares = 0, top = 0;
  for (const float x : words) squares += static_cast<double>(x) * static_cast<double>(x);
  CHECK(std::sqrt(squares / 128) == doctest::Approx(0.02).epsilon(0.2));
  for (const float x : weight) top = (std::max)(top, static_cast<double>(std::fabs(x)));
  const double bound = std::sqrt(6.0 / 16 / 2);
  CHECK(top <= bound);
  CHECK(top > 0.9 * bound);
  for (const float x : values(2, "1.0.fc.bias")) CHECK(x == 0);
}
