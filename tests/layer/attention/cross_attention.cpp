// optimize: yes

#include <gpipe/layer/attention/cross_attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/tools/testing/gradient_check.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/larger_error.hpp"
#include "support/plain_attention.hpp"

using namespace gpipe;
using gpipe::detail::bound;
using laws::numbers;

namespace {

constexpr attention_options two_heads{.heads = 2}, padded{.heads = 4, .key_heads = 2, .head_width = 3, .padded = true};
template <class T>
using same_widths = bundle<tensor<T, 3, 8>, tensor<T, 5, 8>>;
template <class T>
using other_widths = bundle<tensor<T, 3, 7>, tensor<T, 5, 6>>;

// The parameters of torch.nn.MultiheadAttention, whose names depend on the widths.
using stacked = bound<cross_attention<two_heads>, same_widths<float>>;
static_assert(stacked::parameters.size() == 4 && stacked::parameters[0].extents == gpipe::detail::shape{24, 8});
using apart = bound<cross_attention<padded>, other_widths<float>>;
static_assert(apart::parameters.size() == 6 && apart::parameters[1].extents == gpipe::detail::shape{6, 6});
static_assert(apart::fields[0].below == 6);  // of the second input
static_assert(bound<cross_attention<attention_options{.bias = false}>, other_widths<float>>::parameters.size() == 4);

numbers part(const host::guarded_buffer& from, std::size_t first, std::size_t count) {
  numbers found;
  for (std::size_t i = 0; i < count; ++i) found.push_back(from.get(first + i));
  return found;
}

/// Compares forward with the definition.
template <attention_options Options, class T, int Tokens, int Width, int KeyTokens, int KeyWidth>
void follows_the_formula() {
  using layer_fixture =
      host::layer_fixture<cross_attention<Options>, bundle<tensor<T, Tokens, Width>, tensor<T, KeyTokens, KeyWidth>>>;
  using on = typename layer_fixture::on;
  constexpr std::size_t Q = on::Q, K = on::K, samples = 4;
  layer_fixture t(samples, 5);
  t.randomize(4);
  if (Options.padded)
    for (std::size_t n = 0; n < samples; ++n) t.fields[0].set(n, static_cast<double>(n));
  t.refresh();
  t.forward();
  const auto rows = [&](int which, std::size_t first, std::size_t count, std::size_t width) {
    if (which < 0) return numbers{};
    return part(t.parameters[0], t.first_of(static_cast<std::size_t>(which)) + first * width, count * width);
  };
  const bool one = Width == KeyWidth;
  const numbers to_q = rows(on::indices::of_queries, 0, Q, Width),
                to_k = rows(on::indices::of_keys, one ? Q : 0, K, KeyWidth),
                to_v = rows(on::indices::of_values, one ? Q + K : 0, K, KeyWidth);
  double worst = 0;
  for (std::size_t n = 0; n < samples; ++n) {
    const numbers x = part(t.in[0], n * Tokens * Width, std::size_t{Tokens} * Width);
    const numbers memory = part(t.in[1], n * KeyTokens * KeyWidth, std::size_t{KeyTokens} * KeyWidth);
    const numbers q = laws::plain_linear(x, to_q, rows(on::indices::in_bias, 0, Q, 1), Width);
    const numbers k = laws::plain_linear(memory, to_k, rows(on::indices::in_bias, Q, K, 1), KeyWidth);
    const numbers v = laws::plain_linear(memory, to_v, rows(on::indices::in_bias, Q + K, K, 1), KeyWidth);
    const numbers mixed = laws::plain_attention(
        {std::size_t{on::heads.heads}, std::size_t{on::heads.key_heads}, std::size_t{on::heads.width}, Options.causal},
        q, k, v, Options.padded ? n : std::size_t{KeyTokens});
    const numbers y = laws::plain_linear(mixed, rows(on::indices::of_heads, 0, Width, Q),
                                         rows(on::indices::out_bias, 0, Width, 1), Q);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double off = std::fabs(t.out[0].get(n * Tokens * Width + i) - y[i]) / (1 + std::fabs(y[i]));
      worst = larger_error(worst, off);
    }
  }
  CHECK(worst < (std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-5 : 0.03));
  CHECK(t.overrun().empty());
}

// It keeps queries, keys, values, heads, and a number for each query and head, beside its inputs.
static_assert(stacked::keeps.input && !stacked::keeps.output);
static_assert(laws::elements_in(stacked::extras) == 3 * (8 + 8 + 2) + 5 * (8 + 8));
static_assert(laws::elements_in(apart::extras) == 3 * (12 + 12 + 4) + 5 * (6 + 6));

struct net : model<input<float, 3, 8>, linear<8>, from<"source", tensor<float, 5, 6>>,
                   with_field<"lengths", "source_lengths", cross_attention<padded>>, linear<2>, softmax_cross_entropy> {
};

}  // namespace

TEST_CASE_TEMPLATE("forward follows the formula", T, double, float, bf16) {
  follows_the_formula<two_heads, T, 3, 8, 5, 8>();
  follows_the_formula<padded, T, 3, 7, 5, 6>();
  follows_the_formula<attention_options{.bias = false, .padded = true}, T, 1, 3, 70, 9>();
  follows_the_formula<attention_options{.heads = 2, .causal = true}, T, 5, 8, 9, 8>();
  follows_the_formula<attention_options{.heads = 2, .causal = true}, T, 9, 8, 5, 8>();
}

TEST_CASE("the gradients of both inputs and of all parameters are the derivative of forward") {
  const auto passes = [](const gradient_report& found) {
    CAPTURE(found.where);
    CHECK(found.passes());
  };
  passes(check_gradient<cross_attention<two_heads>, same_widths<double>>({.samples = 2}));
  passes(check_gradient<cross_attention<padded>, other_widths<double>>({.samples = 2}));
}

TEST_CASE("without a gradient of one input, or of both, the parameters have the same gradients") {
  host::layer_fixture<cross_attention<padded>, other_widths<float>> t(3, 4);
  t.randomize(5);
  t.refresh();
  t.forward();
  t.backward();
  const auto all = t.gradients[0].bits();
  for (const bool queries : {false, true})
    for (const bool memory : {false, true}) {
      t.gradients[0].clear();
      t.connect_gradients();
      if (!queries) t.call().in_gradient[0] = nullptr;
      if (!memory) t.call().in_gradient[1] = nullptr;
      t.extras[0].poison();
      t.forward();
      if (queries || memory) t.backward_input();
      t.backward_parameters();
      CAPTURE(queries);
      CAPTURE(memory);
      CHECK(t.gradients[0].bits() == all);
    }
}

TEST_CASE("a length beyond the tokens is an error that names the field and the sample") {
  trainer<net, sgd> training({.stages = 2, .micro_batches = 2, .micro_batch_size = 2});
  const std::vector<float> x(4 * 24, 0.5F), source(4 * 30, 0.25F);
  const std::vector<std::int32_t> labels(4 * 3);
  const auto step = [&](const std::vector<std::int32_t>& lengths) {
    std::string message;
    try {
      training.step(
          batch(4).with("inputs", x).with("labels", labels).with("source", source).with("source_lengths", lengths));
    } catch (const error& failure) {
      message = failure.what();
    }
    return message;
  };
  CHECK(step({0, 5, 1, 5}).empty());
  for (const std::int32_t wrong : {6, -1}) {
    const std::string message = step({1, 2, wrong, 3});
    CAPTURE(message);
    CHECK(message.find("field \"source_lengths\" of sample 2 is " + std::to_string(wrong)) != std::string::npos);
    CHECK(message.find("it must lie in 0 ... 5") != std::string::npos);
  }
}
