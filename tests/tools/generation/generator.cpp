#include <gpipe/tools/generation/generator.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gpipe.hpp>

#include "support/sanitized.hpp"

using namespace gpipe;

namespace {

constexpr int tokens = 24, vocabulary = 17, width = 32;

struct block
    : sequence<residual<layer_norm, causal_attention<4>>, residual<layer_norm, linear<48>, gelu, linear<width>>> {};
template <class Positions, class Attention>
struct language
    : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, Positions, residual<layer_norm, Attention>,
            repeat<2, block>, layer_norm, linear<vocabulary>, softmax_cross_entropy> {};
using grouped =
    attention<attention_options{.heads = 4, .key_heads = 2, .head_width = 8, .causal = true, .rotary = 10000}>;
/// One weight for the embedding and for a head that is also the loss, and has a bias of its own.
struct headed : model<input<std::int32_t, tokens>, tied<"words", embedding<vocabulary, width>>, learned_positions<40>,
                      repeat<2, block>, layer_norm, tied<"words", token_head<vocabulary>>> {};
/// The same head, whole and in slices.
template <class... Cut>
struct ends_in_head : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, learned_positions<40>,
                            repeat<2, block>, layer_norm, named<"head", token_head<vocabulary, Cut...>>> {};
struct whole_head : ends_in_head<> {};
struct cut_head : ends_in_head<slices<3>> {};
/// Multiplies by a weight of one number and counts how often it is derived.
struct counted {
  static inline std::atomic<int> refreshes{0};
  template <class In>
  struct on {
    using layer = counted;
    using input = In;
    using output = In;
    static constexpr auto size = static_cast<std::ptrdiff_t>(In::size);
    static constexpr parameter parameters[] = {{"weight", {1}, initializer::ones()}};
    static constexpr buffer derived[] = {{"copy", 1, dtype::float32}};
    static constexpr keep keeps{};
    static constexpr work cost{.forward = 1, .backward_input = 1, .backward_parameters = 1, .bytes = 1};
    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      ++refreshes;
      c.copy(1, a.template parameter<0>(), a.template derived<0>());
    }
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.each(a.samples() * size, scaled{a.in(), a.template derived<0>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (float* into = a.in_gradient())
        c.each(a.samples() * size, scaled{a.out_gradient(), a.template derived<0>(), into});
    }
    template <class C, class A>
    static void backward_parameters(const C&, const A&) {}
  };
  struct scaled {
    const float *from, *by;
    float* into;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { into[i] = from[i] * *by; }
  };
};
struct counting : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, learned_positions<40>, counted,
                        repeat<2, block>, layer_norm, linear<vocabulary>, softmax_cross_entropy> {};
/// y_t = x_t + the sums of the values and of the squares up to t, / 8. It keeps two arrays of earlier tokens.
struct summing {
  template <class In>
  struct on;
  template <class T, int Tokens, int Width>
  struct on<tensor<T, Tokens, Width>> {
    using layer = summing;
    using input = tensor<T, Tokens, Width>;
    using output = input;
    static constexpr buffer extras[] = {{"values", input::size, dtype::float32},
                                        {"squares", input::size, dtype::float32}};
    static constexpr int kept_extras = 2;
    static constexpr bool mixes_tokens = true;
    static constexpr keep keeps{};
    static constexpr work cost{.forward = 4 * Tokens * Width, .backward_input = Tokens * Width};
    static void sum(const auto& a, int sample, int position, const T* x, T* y) {
      const std::ptrdiff_t all = std::ptrdiff_t{Tokens} * Width, first = sample * all;
      T *values = a.template extra<0>() + first, *squares = a.template extra<1>() + first;
      for (int i = 0; i < Width; ++i) {
        values[position * Width + i] = x[i], squares[position * Width + i] = x[i] * x[i];
        T sum = 0;
        for (int t = 0; t <= position; ++t) sum += values[t * Width + i] + squares[t * Width + i];
        y[i] = x[i] + sum / 8;
      }
    }
    static void forward(const auto&, const auto& a) {
      for (int n = 0; n < a.samples(); ++n)
        for (int t = 0; t < Tokens; ++t)
          sum(a, n, t, a.in() + (n * Tokens + t) * Width, a.out() + (n * Tokens + t) * Width);
    }
    static void decode(const auto&, const auto& a, int position) {
      for (int n = 0; n < a.samples(); ++n) sum(a, n, position, a.in() + n * Width, a.out() + n * Width);
    }
    static void backward_input(const auto& c, const auto& a) {  // not trained
      if (a.in_gradient() != nullptr) c.copy(a.samples() * Tokens * Width, a.out_gradient(), a.in_gradient());
    }
  };
};
struct summed : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, summing, layer_norm,
                      linear<vocabulary>, softmax_cross_entropy> {};
using learned = language<learned_positions<40>, causal_attention<2>>;
using turned = language<sinusoidal_positions, grouped>;

/// Texts in which each token is the sum of the two before it, and 1.
struct texts {
  std::vector<std::int32_t> inputs, labels;
  texts() {
    for (int i = 0; i < 16; ++i) {
      std::int32_t a = i % vocabulary, b = i * 5 % vocabulary;
      for (int t = 0; t < tokens; ++t) {
        const std::int32_t next = (a + b + 1) % vocabulary;
        inputs.push_back(b);
        labels.push_back(next);
        a = b, b = next;
      }
    }
  }
};

const std::vector<std::int32_t> prompt{3, 4, 8};

template <class Net>
struct trained {
  trainer<Net, adam> training;
  /// Learns longer where no sanitizer slows it down: then the next tokens are likely ones.
  explicit trained(int stages, int steps = laws::sanitized ? 4 : 20)
      : training({.stages = stages, .micro_batches = 2, .micro_batch_size = 8}, adam{.learning_rate = 3e-3},
                 {.seed = 5}) {
    const texts data;
    for (int i = 0; i < steps; ++i) training.step(batch{16}.with("inputs", data.inputs).with("labels", data.labels));
  }

  /// The logits behind a sequence, without a cache: forward of the whole model.
  std::vector<float> logits_behind(std::vector<std::int32_t> sequence) {
    const std::size_t at = (sequence.size() - 1) * vocabulary;
    sequence.resize(tokens);
    const tensor_rows rows = training.predict(batch{1}.with("inputs", sequence));
    const std::span<const float> all = rows.of(0);
    return {all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at + vocabulary)};
  }
  /// The log probability of a text behind the prompt, without a cache.
  double log_probability(const std::vector<std::int32_t>& text) {
    std::vector<std::int32_t> sequence = prompt;
    std::vector<double> of_next;
    double sum = 0;
    for (const std::int32_t token : text) {
      detail::log_probabilities(logits_behind(sequence), of_next);
      sum += of_next[static_cast<std::size_t>(token)];
      sequence.push_back(token);
    }
    return sum;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("greedy tokens are those of a forward pass over all tokens", Net, learned, turned, headed) {
  trained<Net> of(2);
  generator<Net> from(of.training);
  CHECK(from.max_tokens() == tokens);
  const std::vector<std::int32_t> found = from.generate(prompt, {.tokens = tokens - 2});
  REQUIRE(found.size() == tokens - 2);
  std::vector<std::int32_t> sequence = prompt;
  for (const std::int32_t token : found) {
    CHECK(detail::likeliest(of.logits_behind(sequence)) == token);
    sequence.push_back(token);
  }
}

TEST_CASE_TEMPLATE("tokens do not depend on the number of stages", Net, learned, turned, headed) {
  const generation_options drawn{.tokens = 20, .temperature = 1.5, .top_k = 9, .seed = 7};
  std::vector<std::int32_t> expected;
  for (const int stages : {1, 2, 4}) {
    CAPTURE(stages);
    trained<Net> of(stages);
    generator<Net> from(of.training);
    const std::vector<std::int32_t> found = from.generate(prompt, drawn);
    if (stages == 1) expected = found;
    CHECK(found == expected);
    CHECK(from.generate(prompt, drawn) == expected);
  }
}

TEST_CASE("a draw follows temperature, top_k and seed") {
  trained<learned> of(1, 5);
  generator<learned> from(of.training);
  const auto greedy = from.generate(prompt, {.tokens = 15});
  CHECK(from.generate(prompt, {.tokens = 15, .temperature = 2, .top_k = 1}) == greedy);
  CHECK(from.generate(prompt, {.tokens = 15, .temperature = 1e-6}) == greedy);
  CHECK(from.generate(prompt, {.tokens = 15, .temperature = 2, .top_p = 1e-6}) == greedy);
  const auto one = from.generate(prompt, {.tokens = 15, .temperature = 2, .seed = 1});
  CHECK(from.generate(prompt, {.tokens = 15, .temperature = 2, .seed = 2}) != one);

  // The first token is drawn as often as its probability says, within five standard deviations. The builds
  // without a sanitizer draw 4000 times.
  constexpr int draws = laws::sanitized ? 200 : 4000;
  const std::vector<float> logits = of.logits_behind(prompt);
  std::vector<double> expected;
  detail::log_probabilities(logits, expected);
  std::vector<int> counts(vocabulary);
  for (std::uint64_t seed = 0; seed < draws; ++seed)
    ++counts[static_cast<std::size_t>(from.generate(prompt, {.tokens = 1, .temperature = 1, .seed = seed}).front())];
  for (std::size_t i = 0; i < vocabulary; ++i) {
    const double p = std::exp(expected[i]);
    CHECK(std::abs(counts[i] - draws * p) < 5 * std::sqrt(draws * p * (1 - p)) + 1);
  }
}

TEST_CASE("a prompt may stand in braces") {
  trained<learned> of(1);
  generator<learned> from(of.training);
  const std::vector<std::int32_t> two{3, 5};
  CHECK(from.generate({3, 5}, {.tokens = 4}) == from.generate(two, {.tokens = 4}));
  CHECK(from.beam_search({3, 5}, {.tokens = 4}).front().tokens == from.beam_search(two, {.tokens = 4}).front().tokens);
}

TEST_CASE("generation ends behind the token that ends a text") {
  trained<learned> of(1);
  generator<learned> from(of.training);
  const auto all = from.generate(prompt, {.tokens = 12});
  const std::int32_t end = all[4];
  const auto first = std::find(all.begin(), all.end(), end);
  CHECK(from.generate(prompt, {.tokens = 12, .end = end}) == std::vector<std::int32_t>(all.begin(), first + 1));
  CHECK(from.generate(prompt, {.tokens = 0}).empty());
}

TEST_CASE("beam search finds what an exhaustive search finds") {
  trained<turned> of(1, 3);
  generator<turned> from(of.training);
  // All continuations of two tokens, by the model without a cache.
  std::vector<continuation> all;
  std::vector<double> first, second;
  detail::log_probabilities(of.logits_behind(prompt), first);
  for (std::int32_t a = 0; a < vocabulary; ++a) {
    std::vector<std::int32_t> sequence = prompt;
    sequence.push_back(a);
    detail::log_probabilities(of.logits_behind(sequence), second);
    for (std::int32_t b = 0; b < vocabulary; ++b)
      all.push_back({{a, b}, first[static_cast<std::size_t>(a)] + second[static_cast<std::size_t>(b)]});
  }
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.log_probability > b.log_probability; });
  const std::vector<continuation> found = from.beam_search(prompt, {.tokens = 2, .beams = vocabulary});
  REQUIRE(found.size() == vocabulary);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(found[i].tokens == all[i].tokens);
    CHECK(found[i].log_probability == doctest::Approx(all[i].log_probability).epsilon(1e-4));
  }
}

/// A table of probabilities: the next token depends on the last one alone.
struct bigrams : model<input<std::int32_t, 8>, embedding<6, 6>, linear<6, no_bias>, softmax_cross_entropy> {};

/// `next[i][j]`: the probability of j behind i.
generator<bigrams> generator_of(const double (&next)[6][6]) {
  std::vector<float> one(36, 0.F), logits(36);
  for (std::size_t i = 0; i < 6; ++i) {
    one[7 * i] = 1;
    for (std::size_t j = 0; j < 6; ++j) logits[6 * j + i] = static_cast<float>(std::log(next[i][j]));
  }
  trainer<bigrams, sgd> training(plan_options{.micro_batch_size = 1});
  training.set_parameter("0.weight", one);
  training.set_parameter("1.weight", logits);
  return generator<bigrams>(training);
}

TEST_CASE("a beam search goes on while its best sequence may still come before one that has ended") {
  // Behind 5 come 1, the end (4) and 2; behind 1 comes 3 for ever, behind 2 the end. Then two have ended, .3 and .12,
  // and two live on, .36 and .06.
  const generator<bigrams> from = generator_of({{.2, .2, .2, .2, .1, .1},
                                                {.01, .01, .01, .9, .05, .02},
                                                {.3, .04, .02, .02, .6, .02},
                                                {.02, .02, .02, .9, .02, .02},
                                                {.2, .2, .2, .2, .1, .1},
                                                {.05, .4, .2, .04, .3, .01}});
  const auto found = from.beam_search(std::vector<std::int32_t>{5}, {.tokens = 4, .beams = 2, .end = 4});
  REQUIRE(found.size() == 2);
  CHECK(found[0].tokens == std::vector<std::int32_t>{4});
  CHECK(found[1].tokens == std::vector<std::int32_t>{1, 3, 3, 3});
  CHECK(found[1].log_probability == doctest::Approx(std::log(.4 * .9 * .9 * .9)).epsilon(1e-4));
}

TEST_CASE("a sequence that ends while n others are more likely does not count") {
  // The second tokens, behind 1 (.5) and 2 (.4): the end (.4), 3 (.2), the end again (.18).
  const generator<bigrams> from = generator_of({{.2, .2, .2, .2, .1, .1},
                                                {.025, .025, .025, .1, .8, .025},
                                                {.01, .01, .01, .5, .45, .02},
                                                {.3, .29, .21, .1, .05, .05},
                                                {.2, .2, .2, .2, .1, .1},
                                                {.02, .5, .4, .03, .03, .02}});
  const auto found = from.beam_search(std::vector<std::int32_t>{5}, {.tokens = 3, .beams = 2, .end = 4});
  REQUIRE(found.size() == 2);
  CHECK(found[0].tokens == std::vector<std::int32_t>{1, 4});
  CHECK(found[1].tokens == std::vector<std::int32_t>{2, 3, 0});
  CHECK(found[1].log_probability == doctest::Approx(std::log(.4 * .5 * .3)).epsilon(1e-4));
}

TEST_CASE("a sequence that ends takes no place from those that live on") {
  // Behind 5 come 0, the end (4) and 1, in this order; behind 1 comes 2 for ever, nearly certain.
  const generator<bigrams> from = generator_of({{.25, .25, .25, .2499, 1e-5, 1e-5},
                                                {.005, .005, .97, .01, .005, .005},
                                                {.005, .005, .97, .01, .005, .005},
                                                {.2, .2, .2, .2, .1, .1},
                                                {.2, .2, .2, .2, .1, .1},
                                                {.5, .2, 1e-5, 1e-5, .3, 1e-5}});
  const std::vector<std::int32_t> start{5};
  const auto found = from.beam_search(start, {.tokens = 4, .beams = 2, .end = 4});
  REQUIRE(found.size() == 2);
  CHECK(found[0].tokens == std::vector<std::int32_t>{4});
  CHECK(found[0].log_probability == doctest::Approx(std::log(.3)).epsilon(1e-4));
  CHECK(found[1].tokens == std::vector<std::int32_t>{1, 2, 2, 2});
  CHECK(found[1].log_probability == doctest::Approx(std::log(.2 * .97 * .97 * .97)).epsilon(1e-4));
  // A sequence that ends among the first two counts; one that n others beat does not.
  const auto by_length = from.beam_search(start, {.tokens = 4, .beams = 2, .end = 4, .length_power = 1});
  CHECK(by_length[0].tokens == std::vector<std::int32_t>{1, 2, 2, 2});
  // log .3 = -1.204 / 1 against log(.2 .97^3) = -1.701 / 4. They are equal at the power .249; a length of one more for
  // both would be equal at .377.
  for (const double power : {.24, .26, .35}) {
    CAPTURE(power);
    const auto ordered = from.beam_search(start, {.tokens = 4, .beams = 2, .end = 4, .length_power = power});
    CHECK((ordered[0].tokens.size() == 1) == (power < .249));
  }
}

TEST_CASE_TEMPLATE("beam search with one beam is greedy, and more find at least as likely a text", Net, learned,
                   headed) {
  trained<Net> of(2);
  generator<Net> from(of.training);
  const auto greedy = from.generate(prompt, {.tokens = 18});
  const auto one = from.beam_search(prompt, {.tokens = 18, .beams = 1});
  REQUIRE(one.size() == 1);
  CHECK(one[0].tokens == greedy);
  const auto several = from.beam_search(prompt, {.tokens = 18, .beams = 5});
  CHECK(several.size() == 5);
  CHECK(several[0].log_probability >= one[0].log_probability);
  // What a beam kept of earlier tokens is its own: the probability is that of the whole text.
  for (const continuation& text : several)
    CHECK(text.log_probability == doctest::Approx(of.log_probability(text.tokens)).epsilon(1e-4));
}

TEST_CASE("every array that a layer keeps of earlier tokens goes with its beam") {
  trained<summed> of(1, 0);
  const generator<summed> from(of.training);
  const std::vector<continuation> found = from.beam_search(prompt, {.tokens = 12, .beams = 6});
  REQUIRE(found.size() == 6);
  for (const continuation& text : found)
    CHECK(text.log_probability == doctest::Approx(of.log_probability(text.tokens)).epsilon(1e-4));
}

TEST_CASE("a head in slices generates the texts of an uncut one: greedy, drawn, and by beams") {
  trained<whole_head> of(2);
  trainer<cut_head, adam> cut({.stages = 3, .micro_batches = 2, .micro_batch_size = 8}, adam{});
  std::vector<float> words, biases;
  for (auto& p : cut.parameters()) {
    const bool weight = p.name == "weight";
    if (!p.path.starts_with("head")) {
      p.set(of.training.parameter(p.path));
      continue;
    }
    std::vector<float>& from = weight ? words : biases;
    if (p.path.starts_with("head.slice0")) from = of.training.parameter(weight ? "head.weight" : "head.bias");
    p.set(std::vector<float>(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(p.size())));
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(p.size()));
  }
  const generator<whole_head> expected(of.training);
  const generator<cut_head> found(cut);
  CHECK(found.generate(prompt, {.tokens = 20}) == expected.generate(prompt, {.tokens = 20}));
  const generation_options drawn{.tokens = 20, .temperature = 1.5, .top_k = 9, .seed = 7};
  CHECK(found.generate(prompt, drawn) == expected.generate(prompt, drawn));
  const auto wide = found.beam_search(prompt, {.tokens = 6}), other = expected.beam_search(prompt, {.tokens = 6});
  REQUIRE(wide.size() == other.size());
  for (std::size_t i = 0; i < wide.size(); ++i) CHECK(wide[i].tokens == other[i].tokens);
}

TEST_CASE("parameters are copied when refresh says so") {
  trained<learned> of(1, 0);
  generator<learned> from(of.training);
  const auto before = from.generate(prompt, {.tokens = 10});
  of.training.array("5.bias").set(std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0});
  CHECK(from.generate(prompt, {.tokens = 10}) == before);
  from.refresh(of.training);
  CHECK(from.generate(prompt, {.tokens = 10}) == std::vector<std::int32_t>(10, 9));
}

TEST_CASE("weights are packed once for all texts, and several threads may generate") {
  trained<counting> of(1, 2);
  const generator<counting> from(of.training);
  const std::vector<std::int32_t> one{1};
  const int before = counted::refreshes;
  const auto expected = from.generate(prompt, {.tokens = 20}), other = from.generate(one, {.tokens = 20});
  std::vector<std::int32_t> beside;
  std::thread second([&] {
    for (int i = 0; i < 10; ++i) beside = from.generate(one, {.tokens = 20});
  });
  for (int i = 0; i < 10; ++i) CHECK(from.generate(prompt, {.tokens = 20}) == expected);
  second.join();
  CHECK(beside == other);
  CHECK(from.beam_search(prompt, {.tokens = 20, .beams = 1}).front().tokens == expected);
  CHECK(counted::refreshes == before);
}

TEST_CASE("what cannot be generated is refused") {
  trained<learned> of(1, 0);
  generator<learned> from(of.training);
  const auto refused = [&](std::vector<std::int32_t> text, const generation_options& how, const char* what) {
    CHECK_THROWS_WITH_AS(from.generate(text, how), doctest::Contains(what), error);
  };
  refused({}, {}, "the prompt has no token");
  refused(prompt, {.tokens = tokens - 1}, "a prompt of 3 tokens and 23 more are too long: the model has 24 positions");
  const std::vector<std::int32_t> too_long(tokens + 1, 3);
  for (const int more : {0, 1}) refused(too_long, {.tokens = more}, "a prompt of 25 tokens and");
  CHECK_THROWS_WITH_AS(from.beam_search(too_long, {.tokens = 0}), doctest::Contains("a prompt of 25 tokens"), error);
  CHECK(from.generate(std::vector<std::int32_t>(tokens, 3), {.tokens = 0}).empty());
  CHECK(from.generate(std::vector<std::int32_t>(tokens, 3), {.tokens = 1}).size() == 1);
  refused({3, vocabulary}, {.tokens = 1}, "token 17 of the prompt, at 1, is not below 17");
  refused({-1}, {.tokens = 1}, "token -1 of the prompt, at 0");
  refused(prompt, {.tokens = -1}, "tokens is -1");
  refused(prompt, {.tokens = 1, .temperature = -1}, "the temperature is -1");
  refused(prompt, {.tokens = 1, .temperature = 1, .top_k = -2}, "top_k is -2");
  for (const double p : {0.0, 1.5, std::nan("")})
    refused(prompt, {.tokens = 1, .temperature = 1, .top_p = p}, "; choose a number above 0, and at most 1");
  refused(prompt, {.tokens = 1, .top_k = 2}, "top_k is given, and the temperature is 0, which draws no token; give a");
  refused(prompt, {.tokens = 1, .top_p = .5}, "top_p is given, and the temperature is 0");
  refused(prompt, {.tokens = 1, .threads = 60000}, "threads is 60000; choose at most 1024");
  CHECK_THROWS_WITH_AS(from.beam_search(prompt, {.tokens = 1, .beams = 0}), doctest::Contains("beams is 0"), error);
}

template <int Width, int Positions>
struct varied : model<input<std::int32_t, tokens>, embedding<vocabulary, Width>, learned_positions<Positions>,
                      residual<layer_norm, causal_attention<4>>, token_head<vocabulary>> {};

TEST_CASE("a training of another model is refused") {
  trained<varied<16, 40>> of(1, 0);
  CHECK_THROWS_WITH_AS(generator<headed>{of.training}, doctest::Contains("model has 6 layers, and that of the"), error);
  CHECK_THROWS_WITH_AS((generator<varied<16, 30>>{of.training}),
                       doctest::Contains("layer 1 of the training is learned_positions<40>, and that of the"), error);
  CHECK_THROWS_WITH_AS((generator<varied<32, 40>>{of.training}), doctest::Contains("layer 0 of the"), error);
}

TEST_CASE("a model whose tokens see later ones is refused") {
  using seeing = language<learned_positions<40>, attention<attention_options{.heads = 2}>>;
  trained<seeing> of(1, 0);
  generator<seeing> from(of.training);
  CHECK_THROWS_WITH_AS(from.generate(prompt), doctest::Contains("depends on later ones; generate with attention that"),
                       error);
}

TEST_CASE("a model with more logits than tokens that it reads is refused") {
  struct padded : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, learned_positions<40>,
                        causal_attention<2>, linear<vocabulary + 3>, softmax_cross_entropy> {};
  trainer<padded, sgd> training({.stages = 1, .micro_batches = 1, .micro_batch_size = 1});
  generator<padded> from(training);
  CHECK_THROWS_WITH_AS(from.generate(prompt, {.tokens = 4}),
                       doctest::Contains("the model gives logits of 20 tokens, but reads tokens below 17"), error);
}

TEST_CASE("a model with more rows than tokens is refused") {
  struct doubled : model<input<std::int32_t, tokens>, embedding<vocabulary, width>, stash<"a">, pop<"a">, concat<0>,
                         causal_attention<2>, linear<vocabulary>, softmax_cross_entropy> {};
  trainer<doubled, sgd> training({.stages = 1, .micro_batches = 1, .micro_batch_size = 1});
  generator<doubled> from(training);
  CHECK_THROWS_WITH_AS(from.generate(prompt, {.tokens = 3}), doctest::Contains("output has 2 rows for one token"),
                       error);
}

TEST_CASE("logits that are not numbers are refused") {
  trained<learned> of(1, 0);
  std::vector<float> weight = of.training.parameter<float>(0, "weight");
  weight[std::size_t{width} * 3] = std::numeric_limits<float>::quiet_NaN();  // of token 3, the first of the prompt
  of.training.array(0, "weight").set(weight);
  generator<learned> from(of.training);
  CHECK_THROWS_WITH_AS(from.generate(prompt, {.tokens = 2}), doctest::Contains("the logits behind token 0 are not"),
                       error);
}
