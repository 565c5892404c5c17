// optimize: kernels

#include <gpipe/layer/attention/attention.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

#include "support/larger_error.hpp"
#include "support/plain_attention.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using gpipe::detail::bound;
using laws::numbers;

namespace {

constexpr attention_options grouped{.heads = 4, .key_heads = 2, .head_width = 3};
constexpr attention_options padded{.heads = 2, .causal = true, .bias = false, .padded = true};

using two_groups = bound<gpipe::attention<grouped>, tensor<bf16, 5, 7>>;
static_assert(two_groups::parameters.size() == 4 && two_groups::parameters[0].extents == gpipe::detail::shape{24, 7} &&
              two_groups::parameters[2].extents == gpipe::detail::shape{7, 12});
static_assert(std::is_same_v<two_groups::output, tensor<bf16, 5, 7>>);
static_assert(two_groups::extras[2].size == 4 * 5 && two_groups::extras[2].type == dtype::float32);
static_assert(two_groups::fields.empty() && two_groups::derived[4].size == 0);

// It keeps five times the width for each token: its input, queries, keys, values, heads; and a number for each head.
using of_width_12 = bound<gpipe::attention<attention_options{.heads = 3}>, tensor<float, 5, 12>>;
static_assert(of_width_12::keeps.input && !of_width_12::keeps.output);
static_assert(laws::elements_in(of_width_12::extras) == 5 * (4 * 12 + 3));
static_assert(laws::elements_in(two_groups::extras) == 5 * (12 + 2 * 6 + 12 + 4));

using without_bias = bound<gpipe::attention<padded>, tensor<double, 5, 8>>;
static_assert(without_bias::parameters.size() == 2);
static_assert(without_bias::fields[0].below == 6 && !without_bias::fields[0].optional);

// Initial values: a fan_in of 0 is the number of inputs.
using drawn =
    bound<gpipe::attention<attention_options{.heads = 2, .head_width = 8, .out_proj = initializer::normal(1, 0.02)}>,
          tensor<float, 5, 8>>;
static_assert(drawn::parameters[0].first.fan_in == 8 && drawn::parameters[0].first.scale == 1);
static_assert(drawn::parameters[2].first.drawn == initializer::kind::normal && drawn::parameters[2].first.fan_in == 1);

/// The numbers [first, first + count).
numbers part(const host::guarded_buffer& from, std::size_t first, std::size_t count) {
  numbers found;
  for (std::size_t i = 0; i < count; ++i) found.push_back(from.get(first + i));
  return found;
}
/// Columns [first, first + count) of rows of `width` numbers.
numbers columns(const numbers& from, std::size_t width, std::size_t first, std::size_t count) {
  numbers found;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (i % width >= first && i % width < first + count) found.push_back(from[i]);
  return found;
}

/// Compares forward with the definition.
template <attention_options Options, class T, int Tokens, int Width>
void follows_the_formula() {
  using layer_fixture = host::layer_fixture<gpipe::attention<Options>, tensor<T, Tokens, Width>>;
  using on = typename layer_fixture::on;
  constexpr std::size_t tokens = Tokens, width = Width, Q = on::Q, K = on::K, N = on::N;
  layer_fixture t(5, 6);
  t.randomize(4);
  if (Options.padded)
    for (std::size_t n = 0; n < 5; ++n) t.fields[0].set(n, static_cast<double>((std::min)(n, tokens)));
  t.refresh();
  t.forward();
  const auto parameter = [&](int which) {
    if (which < 0) return numbers{};
    const auto p = static_cast<std::size_t>(which);
    return part(t.parameters[0], t.first_of(p), on::parameters[p].extents.size());
  };
  const laws::plain_heads heads{std::size_t{on::heads.heads}, std::size_t{on::heads.key_heads},
                                std::size_t{on::heads.width}, Options.causal};
  double worst = 0;
  for (std::size_t n = 0; n < 5; ++n) {
    const numbers x = part(t.in[0], n * tokens * width, tokens * width);
    const numbers qkv =
        laws::plain_linear(x, parameter(on::indices::of_queries), parameter(on::indices::in_bias), width);
    const std::size_t length = Options.padded ? (std::min)(n, tokens) : tokens;
    const numbers mixed =
        laws::plain_attention(heads, columns(qkv, N, 0, Q), columns(qkv, N, Q, K), columns(qkv, N, Q + K, K), length);
    const numbers y = laws::plain_linear(mixed, parameter(on::indices::of_heads), parameter(on::indices::out_bias), Q);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double off = std::fabs(t.out[0].get(n * tokens * width + i) - y[i]) / (1 + std::fabs(y[i]));
      worst = larger_error(worst, off);
    }
  }
  CAPTURE(Tokens);
  CAPTURE(Width);
  CHECK(worst < (std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-5 : 0.03));
  CHECK(t.overrun().empty());
}

}  // namespace

TEST_CASE_TEMPLATE("forward follows the formula", T, double, float, bf16) {
  follows_the_formula<attention_options{}, T, 1, 3>();
  follows_the_formula<attention_options{.heads = 2}, T, 3, 8>();
  follows_the_formula<attention_options{.heads = 2, .causal = true}, T, 70, 12>();
  follows_the_formula<grouped, T, 5, 7>();
  follows_the_formula<attention_options{.heads = 8, .key_heads = 1, .head_width = 5, .causal = true}, T, 9, 6>();
  follows_the_formula<padded, T, 3, 4>();
  follows_the_formula<attention_options{.padded = true}, T, 140, 16>();
}

TEST_CASE("tokens that do not count change nothing, and with a length of 0 only the bias is left") {
  host::layer_fixture<gpipe::attention<attention_options{.heads = 2, .padded = true}>, tensor<double, 4, 6>> t(2, 2);
  t.randomize(3);
  t.fields[0].set(0, 2), t.fields[0].set(1, 0);
  t.refresh();
  t.forward();
  const double before = t.out[0].get(0);
  for (std::size_t d = 0; d < 6; ++d) CHECK(t.out[0].get(24 + d) == t.parameters[0].get(t.first_of(3) + d));
  t.backward();
  for (std::size_t i = 24; i < 48; ++i) CHECK(t.in_gradient[0].get(i) == 0);
  t.in[0].set(2 * 6, 1000);  // the first element of token 2
  t.forward();
  CHECK(t.out[0].get(0) == before);
  t.fields[0].set(0, 3);
  t.forward();
  CHECK(t.out[0].get(0) != before);
}

TEST_CASE_TEMPLATE("rotary positions: with the same token everywhere, a weight depends on the distance alone", T,
                   double, float) {
  host::layer_fixture<gpipe::attention<attention_options{.heads = 2, .rotary = 100}>, tensor<T, 6, 8>> t(1, 1);
  t.randomize(9);
  for (std::size_t i = 8; i < 6 * 8; ++i) t.in[0].set(i, t.in[0].get(i % 8));
  t.refresh();
  t.forward();
  const auto score = [&](std::size_t i, std::size_t j, std::size_t head) {  // q_i k_j
    double sum = 0;
    const T* qkv = reinterpret_cast<const T*>(t.extras[0].data());
    for (std::size_t d = 0; d < 4; ++d)
      sum += static_cast<double>(qkv[i * 24 + head * 4 + d]) * static_cast<double>(qkv[j * 24 + 8 + head * 4 + d]);
    return sum;
  };
  for (const std::size_t head : {0U, 1U}) {
    for (std::size_t distance = 0; distance < 5; ++distance)
      for (std::size_t i = distance; i < 6; ++i)
        CHECK(score(i, i - distance, head) == doctest::Approx(score(distance, 0, head)).epsilon(1e-5));
    CHECK(std::fabs(score(1, 0, head) - score(2, 0, head)) > 1e-3);
  }
}

TEST_CASE("the parameter part does the work of the input part if no gradient of the input is needed") {
  host::layer_fixture<gpipe::attention<grouped>, tensor<float, 5, 7>> t(3, 4);
  t.randomize(5);
  t.refresh();
  t.forward();
  t.backward();
  const auto both = t.gradients[0].bits();
  t.gradients[0].clear();
  t.connect_gradients(0);
  t.extras[0].poison();
  t.forward();
  t.backward_input();
  t.backward_parameters();
  CHECK(t.gradients[0].bits() == both);
}

TEST_CASE("what forward and backward touch of the extras is what the layer declares") {
  using layer_fixture = host::layer_fixture<gpipe::attention<grouped>, tensor<float, 5, 7>>;
  std::vector<std::byte> bits[2];
  for (int round = 0; round < 2; ++round) {
    layer_fixture t(4, 4);
    t.randomize(5);
    if (round == 0) t.extras[0].clear();
    t.refresh();
    t.forward();
    t.backward();
    for (std::size_t i = 0, at = 0; i < layer_fixture::bound::extras.size(); ++i) {
      const std::size_t bytes = layer_fixture::bound::extras[i].size * 4 * sizeof(float);
      bits[round].insert(bits[round].end(), t.extras[0].data() + at, t.extras[0].data() + at + bytes);
      at += gpipe::detail::aligned(bytes);
    }
    CHECK(t.overrun().empty());
  }
  CHECK(bits[0] == bits[1]);
}

namespace {

const host::context here;
constexpr int width = 6, tokens = 7, heads = 2, stride = 15;  // two heads and three numbers that stay

template <class Number>
std::vector<Number> table() {
  std::vector<Number> angles(std::size_t{tokens} * width);
  here.each(std::ptrdiff_t{tokens} * width / 2, gpipe::detail::tabulate_angles<Number>{angles.data(), width, 100});
  return angles;
}

}  // namespace

TEST_CASE("a pair's angle is the position times base^(-2 i / width)") {
  const auto angles = table<double>();
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < 3; ++i) {
      const double angle = t * std::pow(100, -2.0 * i / 6);
      CHECK(angles[static_cast<std::size_t>(t * width + i)] == doctest::Approx(std::cos(angle)));
      CHECK(angles[static_cast<std::size_t>(t * width + 3 + i)] == doctest::Approx(std::sin(angle)));
    }
}

TEST_CASE_TEMPLATE("turning back restores the heads, and the rest of a row stays", T, double, float, bf16) {
  using number = compute_type<T>;
  const auto angles = table<number>();
  std::vector<T> rows(std::size_t{2} * tokens * stride);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<number>(std::sin(3 * i + 1));
  const auto before = rows;
  const auto turn = [&](bool back) {
    here.rows(2 * tokens, gpipe::detail::turn_pairs<T>{rows.data(), angles.data(), stride, heads, width, tokens, back});
  };
  turn(false);
  for (std::size_t row = 0; row < 2 * tokens; ++row)
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t at = row * stride + head * width + i, t = row % tokens;
        const double a = static_cast<double>(before[at]), b = static_cast<double>(before[at + 3]);
        const double angle = static_cast<double>(t) * std::pow(100, -2.0 * static_cast<double>(i) / 6);
        const double wanted = a * std::cos(angle) - b * std::sin(angle),
                     other = b * std::cos(angle) + a * std::sin(angle);
        CHECK(static_cast<double>(rows[at]) == doctest::Approx(wanted).epsilon(0.01));
        CHECK(static_cast<double>(rows[at + 3]) == doctest::Approx(other).epsilon(0.01));
      }
  turn(true);
  for (std::size_t i = 0; i < rows.size(); ++i)
    CHECK(static_cast<double>(rows[i]) == doctest::Approx(static_cast<double>(before[i])).epsilon(0.01));
  for (std::size_t row = 0; row < 2 * tokens; ++row)
    for (std::size_t i = heads * width; i < stride; ++i)
      CHECK(static_cast<number>(rows[row * stride + i]) == static_cast<number>(before[row * stride + i]));
}

using two_heads = bound<causal_attention<2>, tensor<float, 3, 8>>;
static_assert(std::is_same_v<two_heads::output, tensor<float, 3, 8>>);

constexpr std::size_t parameters = [] {
  std::size_t sum = 0;
  for (const parameter& p : two_heads::parameters) sum += p.extents.size();
  return sum;
}();
static_assert(parameters == 4 * 8 * 8 + 4 * 8);

// No buffer that it keeps grows with the square of the number of tokens.
static_assert(two_heads::extras[0].size == 3 * 24 && two_heads::extras[1].size == 24 && two_heads::extras[2].size == 6);
static_assert(two_heads::keeps.input && !two_heads::keeps.output);

// Four projections of 3 tokens, and two products over the 6 pairs of a token with itself or an earlier token.
static_assert(two_heads::cost.forward == 4 * (2 * 3 * 8 * 8) + 2 * (2 * 6 * 8) + 10 * 2 * 3 * 4);
static_assert(two_heads::cost.backward_input > 2 * two_heads::cost.forward - 4 * (2 * 3 * 8 * 8));

// Pairs, where the last query sees the last key: 3 + 4 + 5, and 0 + 0 + 1 + 2 + 3.
static_assert(attended_pairs(true, 3, 5) == 12 && attended_pairs(true, 5, 3) == 6 && attended_pairs(false, 3, 5) == 15);

TEST_CASE("the parameters of attention have PyTorch's names") {
  CHECK(doctest::String(two_heads::parameters[0].name) == "in_proj_weight");
  CHECK(doctest::String(two_heads::parameters[2].path_name()) == "out_proj.weight");
  CHECK(two_heads::name == "causal_attention<2>");
}
