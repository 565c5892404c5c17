// sanitizers: address

#include <gpipe/model/structure/sliced_head.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/gpt2.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/torch_steps.hpp"
#include "support/touched_memory.hpp"

using namespace gpipe;

namespace {

// More rows than a block of logits has; no number of slices below divides the vocabulary.
constexpr int tokens = 37, vocabulary = 23, width = 6, count = 9;

template <class T, class... Head>
struct ending_in : model<input<std::int32_t, tokens>, embedding<vocabulary, width, T>,
                         residual<layer_norm, feed_forward<9>>, named<"head", token_head<vocabulary, Head...>>> {};
template <class T>
struct in_three : ending_in<T, slices<3>> {};

static_assert(layers_of<ending_in<float>> == 5 && layers_of<ending_in<float, slices<1>>> == 5);
static_assert(layers_of<ending_in<float, slices<4>>> == 4 + 4 + 1);
static_assert(detail::first_of_slice(23, 4, 0) == 0 && detail::first_of_slice(23, 4, 1) == 6);
static_assert(detail::first_of_slice(23, 4, 3) == 18 && detail::first_of_slice(23, 4, 4) == 23);

// One slice is the uncut head, of the same type.
static_assert(std::is_same_v<detail::bound<token_head<9, slices<1>>, tensor<float, 8>>::output, bundle<>>);

template <std::size_t N>
constexpr bool is_named(const detail::text<N>& text, std::string_view name) {
  return std::string_view(text.letters) == name;
}
static_assert(is_named(detail::slice_name<0>(), "slice0") && is_named(detail::slice_name<10>(), "slice10"));
static_assert(is_named(detail::slice_name<987>(), "slice987"));

constexpr cross_entropy every_setting{.smoothing = 0.125, .ignored = -100, .clip = 0.75};
using smooth = softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1}>;
using ignoring = softmax_cross_entropy_with<cross_entropy{.ignored = -100}>;
using padding = softmax_cross_entropy_with<cross_entropy{.ignored = 0}>;
using clipped = softmax_cross_entropy_with<cross_entropy{.clip = 0.75}>;
using every = softmax_cross_entropy_with<every_setting>;

template <class T>
struct numbers {
  std::vector<std::int32_t> inputs{}, labels{};
  std::vector<T> weights{};
  explicit numbers(bool ignores = false) {
    for (int i = 0; i < count * tokens; ++i) {
      inputs.push_back(i * i % vocabulary);
      labels.push_back(ignores && i % 3 == 1 ? -100 : i * 5 % vocabulary);
      weights.push_back(static_cast<T>(0.25) * static_cast<T>(1 + i % 4));
    }
  }
  batch all() const { return batch(count).with("inputs", inputs).with("labels", labels).with("weights", weights); }
  batch take(int first, int size) const {
    const auto part = [&](const auto& from) {
      return std::span(from).subspan(static_cast<std::size_t>(first * tokens), static_cast<std::size_t>(size * tokens));
    };
    return batch(size).with("inputs", part(inputs)).with("labels", part(labels)).with("weights", part(weights));
  }
};

/// The same first values for every number of slices: arrays of the head are parts of one.
template <class T, class Training>
void set_first_values(Training& training, double scale) {
  const auto of_head = laws::stream_of<T>(100, std::size_t{vocabulary} * width),
             biases = laws::stream_of<T>(101, vocabulary);
  std::size_t weight_at = 0, bias_at = 0;
  int which = 0;
  for (auto& p : training.parameters()) {
    std::vector<T> values;
    if (p.path.starts_with("head")) {
      const bool weight = p.name == "weight";
      std::size_t& at = weight ? weight_at : bias_at;
      const auto& from = weight ? of_head : biases;
      for (std::size_t i = 0; i < p.size(); ++i) values.push_back(from[at++] * static_cast<T>(scale));
    } else {
      values = laws::stream_of<T>(which++, p.size());
    }
    p.set(values);
  }
}

/// All that a training gives: losses, weights, hits; then the parameters, the head's weight and its bias last.
template <class Model, class T>
std::vector<double> trained(const plan_options& options, bool ignores = false, double scale = 1,
                            const std::vector<int>& cut = {}) {
  training_options how;
  how.cut = cut;
  trainer<Model, sgd> training(options, sgd{.learning_rate = 0.5}, how);
  set_first_values<T>(training, scale);
  const numbers<T> data(ignores);
  std::vector<double> found, weights, biases;
  for (int i = 0; i < 4; ++i) {
    const step_result r = i < 3 ? training.step(data.take(0, 8 - i)) : training.evaluate(data.all());
    found.insert(found.end(), {r.loss, r.weight, r.accuracy()});
  }
  for (auto& p : training.parameters()) {
    auto& into = !p.path.starts_with("head") ? found : p.name == "weight" ? weights : biases;
    for (const T x : p.template values<T>()) into.push_back(static_cast<double>(x));
  }
  found.insert(found.end(), weights.begin(), weights.end());
  found.insert(found.end(), biases.begin(), biases.end());
  return found;
}

const plan_options one{.micro_batches = 3, .micro_batch_size = 3};

/// Against softmax over all words, in double.
template <int N, class... Options>
void equals_the_uncut_head(bool ignores = false, double scale = 1, double tolerance = 1e-12) {
  const auto expected = trained<ending_in<double, Options...>, double>(one, ignores, scale);
  const auto found = trained<ending_in<double, Options..., slices<N>>, double>(one, ignores, scale);
  CAPTURE(N);
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::fabs(found[i] - expected[i]) / (1 + std::fabs(expected[i]));
    worst = off <= worst ? worst : off;  // NaN is worst
  }
  CHECK(worst < tolerance);
}

template <class Net, class T>
void has_the_same_bits(bool ignores = false) {
  constexpr int L = layers_of<Net>;
  const auto expected = trained<Net, T>(one, ignores);
  for (const auto mode : {recompute_mode::never, recompute_mode::always}) {
    for (int S = 1; S <= L; ++S)
      for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1}) {
        CAPTURE(S);
        CAPTURE(name_of(schedule));
        plan_options options = one;
        options.stages = S, options.schedule = schedule, options.recompute = mode;
        CHECK((trained<Net, T>(options, ignores) == expected));
      }
  }
}

/// All 2^(L - 1) cuts.
template <class Net, class T>
void has_the_same_bits_at_every_cut() {
  constexpr int L = layers_of<Net>;
  const auto expected = trained<Net, T>(one);
  for (unsigned mask = 0; mask < 1U << (L - 1); ++mask) {
    std::vector<int> cut;
    for (int l = 1; l < L; ++l)
      if ((mask >> (l - 1) & 1U) != 0) cut.push_back(l);
    plan_options options = one;
    options.stages = static_cast<int>(cut.size()) + 1;
    CAPTURE(cut);
    CHECK((trained<Net, T>(options, false, 1, cut) == expected));
  }
}

/// GPT-2 with a head of its own.
template <class... Head>
struct large : model<input<std::int32_t, 1024>, embedding<50'257, 768>, repeat<12, gpt2_block<768, 12, 12>>, layer_norm,
                     token_head<50'257, no_bias, Head...>> {};

/// The slowest of 8 stages over an eighth of all work, in floating-point operations.
template <class Model>
constexpr double imbalance() {
  constexpr int S = 8;
  using planned = plan<Model, stages<S>, micro_batches<32>, micro_batch_size<1>, schedule<one_f_one_b>>;
  const network& net = network_of<Model>;
  double all = 0, most = 0;
  for (int s = 0; s < S; ++s) {
    double stage = 0;
    for (int l = planned::cut().first[s]; l < planned::cut().first[s + 1]; ++l) {
      const work& w = net.type_of(l).cost;
      stage += static_cast<double>(w.forward + w.backward_input + w.backward_parameters);
    }
    all += stage;
    most = stage > most ? stage : most;
  }
  return most * S / all;
}

}  // namespace

TEST_CASE("a head in slices has the losses, hits and updates of the uncut head") {
  equals_the_uncut_head<2>();
  equals_the_uncut_head<3>();
  equals_the_uncut_head<8, no_bias>();
  equals_the_uncut_head<23>();  // a word each
  equals_the_uncut_head<4, smooth>();
  equals_the_uncut_head<4, ignoring>(true);
  equals_the_uncut_head<4, padding>();
  equals_the_uncut_head<4, clipped>();
  equals_the_uncut_head<5, no_bias, every>(true);
}

TEST_CASE("large logits do not overflow") { equals_the_uncut_head<3>(false, 1e3, 1e-9); }

TEST_CASE("a head in slices has the same bits for every number of stages, schedule and recompute mode") {
  has_the_same_bits<ending_in<float, slices<3>>, float>();
  has_the_same_bits<ending_in<float, every, slices<2>>, float>(true);
  has_the_same_bits<ending_in<bf16, slices<3>>, float>();
}

TEST_CASE("a head in slices has the same bits at every cut") {
  has_the_same_bits_at_every_cut<ending_in<float, slices<3>>, float>();
  has_the_same_bits_at_every_cut<ending_in<bf16, slices<3>>, float>();
}

TEST_CASE("in bf16 the loss of a head in slices differs by roundings from the uncut one") {
  const auto expected = trained<ending_in<bf16>, float>(one), found = trained<ending_in<bf16, slices<3>>, float>(one);
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (const double off = std::fabs(found[i] - expected[i]) / (1 + std::fabs(expected[i])); !(off <= worst))
      worst = off;
  CHECK(worst < 0.03);
}

TEST_CASE("a slice has a path, and its part of the weight") {
  trainer<ending_in<float, slices<3>>, sgd> training(one);
  std::vector<std::string> paths;
  for (auto& p : training.parameters())
    if (p.path.starts_with("head")) paths.push_back(p.path + " " + std::to_string(p.size()));
  CHECK(paths == std::vector<std::string>{"head.slice0.weight 48", "head.slice0.bias 8", "head.slice1.weight 48",
                                          "head.slice1.bias 8", "head.slice2.weight 42", "head.slice2.bias 7"});
}

TEST_CASE("a head in slices uses its predicted memory") {
  const numbers<float> data;
  const auto touches = [&]<class Net>(Net, const plan_options& with) {
    const auto make = [](const plan_options& plan, const training_options& how) {
      return std::make_shared<trainer<Net, adam>>(plan, adam{}, how);
    };
    const auto take = [&](int first, int samples) { return data.take(first, samples); };
    laws::touches_what_is_predicted({make, take, network_of<Net>}, with);
  };
  touches(ending_in<float, slices<3>>{}, {});
  touches(ending_in<float, slices<3>>{}, {.schedule = schedule_kind::zb_h1});
  touches(ending_in<bf16, slices<3>>{}, {});
}

TEST_CASE("of equal logits the first is the hit, in a slice and from slice to slice") {
  trainer<in_three<float>, sgd> training(one, sgd{});
  set_first_values<float>(training, 0);  // all logits are 0
  const numbers<float> data;
  double hits = 0, all = 0;
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    all += static_cast<double>(data.weights[i]);
    if (data.labels[i] == 0) hits += static_cast<double>(data.weights[i]);
  }
  CHECK(hits > 0);
  CHECK(training.evaluate(data.all()).accuracy() == hits / all);
}

TEST_CASE("slices balance eight stages of GPT-2") {
  static_assert(imbalance<large<>>() > 1.8);
  static_assert(imbalance<large<slices<16>>>() < 1.15);
  MESSAGE("slowest stage over the mean: ", imbalance<large<>>(), ", in 16 slices ", imbalance<large<slices<16>>>());
}
