// sanitizers: address
// optimize: yes

#include <gpipe/layer/attention/embedding.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/reference/token_layers.hpp"
#include "support/torch_steps.hpp"

using namespace gpipe;
using namespace gpipe::detail;
namespace known = reference::token_layers;

using of_words = bound<embedding<100, 16>, tensor<std::int32_t, 5>>;
static_assert(std::is_same_v<of_words::output, tensor<float, 5, 16>>);
static_assert(of_words::parameters.size() == 1 && of_words::parameters[0].extents == shape{100, 16});
static_assert(of_words::keeps.input && of_words::cost.backward_input == 0 && of_words::cost.backward_parameters == 80);
static_assert(std::is_same_v<of_words::value_type, float> && of_words::input_below == 100);

using halves = bound<embedding<100, 16, times_root_of_width, bf16>, tensor<std::int32_t, 2, 5>>;
static_assert(std::is_same_v<halves::output, tensor<bf16, 2, 5, 16>> && std::is_same_v<halves::value_type, float>);

namespace {

// The layers around attention, as GPT-2 and LLaMA have them, with an embedding that is scaled.
template <class T, class Positions, class Norm, class Body>
struct around
    : model<input<std::int32_t, known::tokens>, embedding<known::vocabulary, known::width, T, times_root_of_width>,
            Positions, repeat<2, residual<Norm, Body>>, linear<known::vocabulary, no_bias>, softmax_cross_entropy> {};
template <class T>
using gpt = around<T, learned_positions<known::tokens + 2>, layer_norm, feed_forward<known::hidden>>;
template <class T>
using llama = around<T, sinusoidal_positions, rms_norm, gated_feed_forward<known::hidden>>;

template <class Model, class T>
void trains_as_torch(std::span<const double> losses, std::span<const double> after, int stages) {
  trainer<Model, sgd> training({.stages = stages, .micro_batches = 2, .micro_batch_size = 2},
                               sgd{.learning_rate = known::rate});
  laws::set_streams<T>(training);
  laws::has_torch_steps<T>(training, laws::token_rows().labelled(), losses, after);
}

/// All parameters after two steps.
template <class Model>
std::vector<float> trained(const plan_options& options) {
  trainer<Model, sgd> training(options, sgd{.learning_rate = known::rate});
  laws::set_streams<float>(training);
  const laws::token_rows data;
  for (int i = 0; i < 2; ++i) training.step(data.labelled());
  std::vector<float> all;
  for (auto& p : training.parameters())
    for (const float x : p.values()) all.push_back(x);
  return all;
}

}  // namespace

TEST_CASE("an embedding's name contains the extents of its weight") { CHECK(of_words::name == "embedding<100, 16>"); }

TEST_CASE("a row that several tokens read gets the sum of their gradients, in the order of the tokens") {
  host::layer_fixture<embedding<3, 1>, tensor<std::int32_t, 4>> t(2, 3);
  t.randomize(1);
  const int tokens[] = {1, 0, 1, 1, 2, 1, 1, 0};
  // The small numbers vanish one by one, but not their sum: another order of additions has other bits.
  const float gradient[] = {1, 5, 0x1p-24F, 0x1p-24F, 7, 0x1p-24F, 0x1p-24F, 6};
  for (std::size_t i = 0; i < 8; ++i)
    t.in[0].set(i, tokens[i]), t.out_gradient[0].set(i, static_cast<double>(gradient[i]));
  t.forward();
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(t.out[0].get(i) == t.parameters[0].get(static_cast<std::size_t>(tokens[i])));
  t.backward_parameters();
  CHECK(t.gradients[0].get(0) == 11);
  CHECK(t.gradients[0].get(1) == 1);
  CHECK(t.gradients[0].get(2) == 7);
  CHECK(t.overrun() == "");
}

TEST_CASE("a scaled embedding in bf16 rounds its rows once") {
  host::layer_fixture<embedding<3, 10, bf16, times_root_of_width>, tensor<std::int32_t, 2>> t(1, 1);
  t.randomize(1, 3);
  t.forward();
  const auto row = static_cast<std::size_t>(t.in[0].get(1));
  for (std::size_t i = 0; i < 10; ++i) {
    const auto weight = static_cast<float>(t.parameters[0].get(row * 10 + i));
    CHECK(t.out[0].get(10 + i) == static_cast<double>(static_cast<float>(bf16(weight * std::sqrt(10.0F)))));
  }
}

TEST_CASE_TEMPLATE("three steps with the layers around attention in GPT-2 are those of PyTorch", T, double, float) {
  for (const int stages : {1, 3}) trains_as_torch<gpt<T>, T>(known::gpt_losses, known::gpt_after, stages);
}
TEST_CASE_TEMPLATE("three steps with the layers around attention in LLaMA are those of PyTorch", T, double, float) {
  for (const int stages : {1, 3}) trains_as_torch<llama<T>, T>(known::llama_losses, known::llama_after, stages);
}

TEST_CASE_TEMPLATE("no cut, schedule or recompute changes a bit", Model, gpt<float>, llama<float>) {
  const std::vector<float> alone = trained<Model>({.micro_batches = 4, .micro_batch_size = 1});
  for (const int stages : {2, 3, 5}) {
    CAPTURE(stages);
    for (const recompute_mode mode : {recompute_mode::never, recompute_mode::always})
      CHECK(trained<Model>({.stages = stages, .micro_batches = 4, .micro_batch_size = 1, .recompute = mode}) == alone);
    for (const schedule_kind schedule : {schedule_kind::one_f_one_b, schedule_kind::zb_h1})
      CHECK(trained<Model>({.stages = stages, .micro_batches = 4, .micro_batch_size = 1, .schedule = schedule}) ==
            alone);
    plan_options grouped{.stages = stages, .micro_batches = 4, .micro_batch_size = 1};
    grouped.schedule = schedule_kind::fill_drain;
    grouped.recompute = recompute_mode::never;
    grouped.group_gradients = 3;
    CHECK(trained<Model>(grouped) == alone);
  }
}

TEST_CASE("a batch with a token outside the vocabulary is rejected, and the training goes on") {
  trainer<llama<float>, sgd> training({.stages = 2, .micro_batches = 2, .micro_batch_size = 2}, sgd{});
  laws::token_rows data;
  data.tokens[2 * known::tokens + 3] = known::vocabulary;
  CHECK_THROWS_WITH_AS(training.step(data.labelled()),
                       doctest::Contains("field \"inputs\" of sample 2, at position 3, is 7"), error);
  data.tokens[2 * known::tokens + 3] = 0;
  CHECK(training.step(data.labelled()).loss > 0);
}
