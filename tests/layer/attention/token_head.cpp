// sanitizers: address
// optimize: yes

#include <gpipe/layer/attention/token_head.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/reference/token_layers.hpp"
#include "support/temporary_folder.hpp"
#include "support/torch_steps.hpp"

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::token_layers;

using head = bound<token_head<100>, tensor<float, 3, 8>>;
static_assert(std::is_same_v<head::output, bundle<>>);

// The same parameters, fields, partials and operations as linear and softmax_cross_entropy.
using logits = bound<linear<100>, tensor<float, 3, 8>>;
using loss = bound<softmax_cross_entropy, tensor<float, 3, 100>>;
static_assert(head::parameters[0].extents == logits::parameters[0].extents);
static_assert(head::parameters[1].extents == logits::parameters[1].extents);
static_assert(head::derived[0].size == logits::derived[0].size && head::derived[1].size == logits::derived[1].size);
static_assert(head::fields[0].size == loss::fields[0].size && head::fields[0].below == loss::fields[0].below);
static_assert(head::fields[1].optional && head::partials.size() == loss::partials.size());
static_assert(head::extras[1].size == loss::extras[0].size);
static_assert(logits::cost.forward + loss::cost.forward - head::cost.forward == 3 * 100);  // the bias
static_assert(head::extras[0].size == 300 && head::keeps.input && head::predicted == 0);

constexpr cross_entropy every_setting{.smoothing = 0.125, .ignored = -100, .clip = 1};
using smooth = softmax_cross_entropy_with<every_setting>;
using set = bound<token_head<100, smooth, no_bias>, tensor<float, 3, 8>>;
static_assert(set::parameters.size() == 1 && set::fields[0].ignored == -100);
static_assert(bound<token_head<100, no_bias, softmax_cross_entropy>, tensor<float, 8>>::parameters.size() == 1);

namespace {

constexpr int tokens = known::tokens, vocabulary = known::vocabulary, width = known::width;

template <class T, class... Last>
struct ending_in : model<input<std::int32_t, tokens>, embedding<vocabulary, width, T>,
                         residual<layer_norm, feed_forward<known::hidden>>, Last...> {};

/// All that a training gives: losses, hits, weights, parameters, and predictions as the element type has them.
template <class Model, class T>
std::vector<double> trained(const plan_options& options, bool ignores) {
  using number_type = compute_type<T>;
  trainer<Model, adam> training(options, adam{.learning_rate = 0.05});
  laws::set_streams<number_type>(training);
  const laws::token_rows data(ignores);
  std::vector<double> found;
  for (int i = 0; i < 3; ++i) {
    const step_result r = i < 2 ? training.step(data.weighted()) : training.evaluate(data.weighted());
    found.insert(found.end(), {r.loss, r.weight, r.accuracy()});
  }
  for (auto& p : training.parameters())
    for (const auto x : p.template values<number_type>()) found.push_back(static_cast<double>(x));
  const tensor_rows rows = training.predict(data.inputs());
  CHECK(rows.all<T>().size() == known::samples * tokens * vocabulary);
  for (const T x : rows.all<T>()) found.push_back(static_cast<double>(x));
  return found;
}

const plan_options three{.stages = 3, .micro_batches = 3, .micro_batch_size = 2};

template <class T, class Linear, class Loss, class Head>
void trains_as_two_layers(bool ignores = false) {
  const std::vector<double> expected =
      trained<ending_in<T, Linear, Loss>, T>({.micro_batches = 3, .micro_batch_size = 2}, ignores);
  for (const auto schedule : {schedule_kind::one_f_one_b, schedule_kind::zb_h1})
    for (const auto mode : {recompute_mode::never, recompute_mode::always})
      for (const int stages : {1, 3}) {
        plan_options options = three;
        options.stages = stages, options.schedule = schedule, options.recompute = mode;
        CHECK((trained<ending_in<T, Head>, T>(options, ignores) == expected));
      }
}

/// The shared weight of embedding and head.
struct tied_ends : model<input<std::int32_t, tokens>, named<"wte", tied<"w", embedding<vocabulary, width>>>,
                         residual<layer_norm, feed_forward<known::hidden>>,
                         named<"head", tied<"w", token_head<vocabulary, no_bias>>>> {};
struct tied_linear : model<input<std::int32_t, tokens>, named<"wte", tied<"w", embedding<vocabulary, width>>>,
                           residual<layer_norm, feed_forward<known::hidden>>,
                           named<"head", tied<"w", linear<vocabulary, no_bias>>>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("the partials of the token head are those of a loss") {
  for (std::size_t i = 0; i < 3; ++i) CHECK(doctest::String(head::partials[i].name) == loss::partials[i].name);
}

TEST_CASE_TEMPLATE("a token head has the bits of linear and the loss: losses, hits, updates, predictions", T, float,
                   bf16) {
  trains_as_two_layers<T, linear<vocabulary>, softmax_cross_entropy, token_head<vocabulary>>();
  trains_as_two_layers<T, linear<vocabulary, no_bias>, softmax_cross_entropy, token_head<vocabulary, no_bias>>();
  trains_as_two_layers<T, linear<vocabulary>, smooth, token_head<vocabulary, smooth>>(true);
}

// No gradient flows back to the input of the model, so the input part does not run.
TEST_CASE("a token head alone is a model") {
  struct alone : model<input<float, 2, 3>, token_head<5>> {};
  struct pair : model<input<float, 2, 3>, linear<5>, softmax_cross_entropy> {};
  const auto run = [](auto which) {
    trainer<decltype(which), sgd> training({.micro_batches = 2, .micro_batch_size = 2}, sgd{.learning_rate = 0.5});
    laws::set_streams<float>(training);
    const std::vector<float> x = laws::stream_of<float>(3, 4 * 6);
    const std::vector<std::int32_t> labels{0, 1, 2, 3, 4, 0, 2, 1};
    for (int i = 0; i < 3; ++i) training.step(batch(4).with("inputs", x).with("labels", labels));
    return training.parameter_hash();
  };
  CHECK(run(alone{}) == run(pair{}));
}

TEST_CASE_TEMPLATE("three steps of a GPT with a token head are those of PyTorch", T, double, float) {
  struct gpt : model<input<std::int32_t, tokens>, embedding<vocabulary, width, T, times_root_of_width>,
                     learned_positions<tokens + 2>, repeat<2, residual<layer_norm, feed_forward<known::hidden>>>,
                     token_head<vocabulary, no_bias>> {};
  trainer<gpt, sgd> training({.stages = 2, .micro_batches = 2, .micro_batch_size = 2},
                             sgd{.learning_rate = known::rate});
  laws::set_streams<T>(training);
  laws::has_torch_steps<T>(training, laws::token_rows().labelled(), known::gpt_losses, known::gpt_after);
}

TEST_CASE("a head that is tied to the embedding has the bits of linear and the loss") {
  const std::vector<double> expected = trained<tied_linear, float>({.micro_batches = 3, .micro_batch_size = 2}, false);
  for (int stages = 1; stages <= layers_of<tied_ends>; ++stages)
    for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1}) {
      plan_options options = three;
      options.stages = stages, options.schedule = schedule;
      CHECK(trained<tied_ends, float>(options, false) == expected);
    }
}

TEST_CASE("a tied head is saved and loaded, into another plan and into a model of two layers") {
  const temporary_folder folder;
  trainer<tied_ends, adam> from(three);
  const laws::token_rows data;
  for (int i = 0; i < 2; ++i) from.step(data.weighted());
  from.save(folder.path());
  from.save(folder.beside("alone.safetensors"));
  trainer<tied_ends, adam> into({.stages = 2, .micro_batches = 3, .micro_batch_size = 2});
  into.load(folder.path());
  trainer<tied_linear, adam> other({.micro_batches = 3, .micro_batch_size = 2});
  other.load(folder.beside("alone.safetensors"));
  CHECK(other.parameter("head.weight") == from.parameter("wte.weight"));
  const double next = from.step(data.weighted()).loss;
  CHECK(into.step(data.weighted()).loss == next);
  CHECK(into.parameter_hash() == from.parameter_hash());
}

TEST_CASE("a group that names one of the ends has the shared weight") {
  trainer<tied_ends, sgd> training(three, sgd{}, {.groups = {{.parameters = {"head.*"}, .frozen = true}}});
  const std::vector<float> before = training.parameter("wte.weight");
  training.step(laws::token_rows().weighted());
  CHECK(training.parameter("wte.weight") == before);
}

TEST_CASE("each token has a label: fit, evaluate, accuracy, perfect after some epochs") {
  trainer<tied_ends, adam> training(three, adam{.learning_rate = 0.02});
  std::vector<std::int32_t> inputs, labels;
  for (int i = 0; i < 8 * tokens; ++i) inputs.push_back(i * 3 % vocabulary), labels.push_back((i * 3 + 2) % vocabulary);
  const dataset all = dataset().with("inputs", tokens, inputs).with("labels", tokens, labels);
  CHECK(training.evaluate(all).weight == 8 * tokens);
  fit(training, all, {.epochs = 200, .batch = 6});
  CHECK(training.evaluate(all).accuracy() == 1);
  labels[7] = vocabulary;
  CHECK_THROWS_WITH_AS(training.evaluate(batch(2)
                                             .with("inputs", std::span(inputs).first(2 * tokens))
                                             .with("labels", std::span(labels).first(2 * tokens))),
                       doctest::Contains("field \"labels\" of sample 1, at position 2, is 7"), error);
}
