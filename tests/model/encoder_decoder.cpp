// optimize: yes

#include <gpipe/model/encoder_decoder.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe.hpp>

using namespace gpipe;

namespace {

// T(L, H, A) of the paper's section 5, with two tables of 64,000 words.
static_assert(network_of<encoder_decoder<6, 8192, 16>>.parameters() == 408'141'824);
static_assert(network_of<encoder_decoder<24, 8192, 16>>.parameters() == 1'239'351'296);
static_assert(network_of<encoder_decoder<12, 16384, 32>>.parameters() == 1'239'166'976);
static_assert(network_of<encoder_decoder<32, 16384, 32>>.parameters() == 3'085'991'936);
static_assert(network_of<encoder_decoder<64, 16384, 32>>.parameters() == 6'040'911'872);

constexpr int source = 6, target = 7, words = 8, beginning = 7;
template <class T>
using tiny = encoder_decoder<
    2, 24, 2,
    encoder_decoder_options{
        .source_tokens = source, .target_tokens = target, .vocabulary = words, .width = 16, .head_width = 4},
    T>;

/// Sources of 3 to 6 digits below 6, and their digits backwards behind a first word.
struct pairs {
  int count;
  std::vector<std::int32_t> inputs, lengths, targets, labels;
  explicit pairs(int n, unsigned seed = 1) : count(n) {
    for (int s = 0; s < n; ++s) {
      std::vector<std::int32_t> digits;
      const auto next = [&] { return static_cast<int>((seed = seed * 1664525U + 1013904223U) >> 16); };
      const int length = 3 + next() % 4;
      for (int i = 0; i < length; ++i) digits.push_back(next() % 6);
      lengths.push_back(length);
      for (int i = 0; i < source; ++i) inputs.push_back(i < length ? digits[static_cast<std::size_t>(i)] : 6);
      std::reverse(digits.begin(), digits.end());
      digits.push_back(beginning);  // also ends the text
      targets.push_back(beginning);
      for (int i = 0; i < target; ++i) {
        const bool there = i <= length;
        labels.push_back(there ? digits[static_cast<std::size_t>(i)] : -100);
        if (i + 1 < target) targets.push_back(there ? digits[static_cast<std::size_t>(i)] : 6);
      }
    }
  }
  batch all() const {
    return batch(count).with("inputs", inputs).with("lengths", lengths).with("targets", targets).with("labels", labels);
  }
  dataset data() const {
    return dataset()
        .with("inputs", source, inputs)
        .with("lengths", 1, lengths)
        .with("targets", target, targets)
        .with("labels", target, labels);
  }
};

template <encoder_decoder_options Options>
using with = encoder_decoder<2, 24, 2, Options>;
constexpr encoder_decoder_options few{
    .source_tokens = source, .target_tokens = target, .vocabulary = words, .width = 16, .head_width = 4};
constexpr encoder_decoder_options recipe = [] {
  encoder_decoder_options o = few;
  o.dropout = 10, o.smoothing = 0.1, o.clip = 4, o.depth_scaled = true, o.final_norms = true;
  return o;
}();
constexpr encoder_decoder_options tied_head = [] {
  encoder_decoder_options o = recipe;
  o.tied_head = true;
  return o;
}();
constexpr encoder_decoder_options cut_head = [] {
  encoder_decoder_options o = recipe;
  o.head_slices = 3;
  return o;
}();
constexpr encoder_decoder_options tied_slices = [] {
  encoder_decoder_options o = tied_head;
  o.head_slices = 3;
  return o;
}();
constexpr encoder_decoder_options without_drops(encoder_decoder_options o) {
  o.dropout = 0;
  return o;
}
constexpr std::size_t norms = 4 * 16, table = words * 16;
static_assert(network_of<with<recipe>>.parameters() == network_of<with<few>>.parameters() + norms);
static_assert(network_of<with<tied_head>>.parameters() == network_of<with<recipe>>.parameters() - table);
static_assert(network_of<with<cut_head>>.parameters() == network_of<with<recipe>>.parameters());
static_assert(network_of<with<tied_slices>>.parameters() == network_of<with<tied_head>>.parameters());
static_assert(layers_of<with<recipe>> == layers_of<with<few>> + 2 + 2 + 2 * 5);  // dropout, norms, dropout in layers

template <class Net = tiny<float>>
std::uint64_t trained(const plan_options& plan) {
  trainer<Net, adam> training{plan, adam{.learning_rate = 0.01}, {.seed = 3}};
  const pairs some(8);
  for (int i = 0; i < 3; ++i) training.step(some.all());
  return training.parameter_hash();
}

}  // namespace

TEST_CASE("an encoder and a decoder train with the same bits in every plan") {
  const std::uint64_t expected = trained({.stages = 1, .micro_batches = 4, .micro_batch_size = 2});
  for (const int stages : {2, 3, 7, layers_of<tiny<float>>})
    for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
      for (const auto mode : {recompute_mode::never, recompute_mode::always}) {
        CAPTURE(stages);
        CHECK(trained({.stages = stages,
                       .micro_batches = 4,
                       .micro_batch_size = 2,
                       .recompute = mode,
                       .schedule = schedule}) == expected);
      }
}

TEST_CASE("gradients of an encoder and a decoder are those of differences") {
  using net = tiny<double>;
  const pairs some(4);
  const double rate = 1e-3;
  const training_options how{.seed = 9};
  const plan_options plan{.stages = 3, .micro_batches = 2, .micro_batch_size = 2};
  trainer<net, sgd> stepped{plan, sgd{.learning_rate = rate}, how}, moved{plan, sgd{.learning_rate = rate}, how};
  stepped.step(some.all());
  int checked = 0;
  for (const auto& p : moved.parameters()) {
    auto values = moved.array(p.path).template values<double>();
    const auto after = stepped.array(p.path).template values<double>();
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 3) {
      const double was = values[i], h = 1e-5;
      values[i] = was + h;
      moved.array(p.path).set(values);
      const double above = moved.evaluate(some.all()).loss;
      values[i] = was - h;
      moved.array(p.path).set(values);
      const double below = moved.evaluate(some.all()).loss;
      values[i] = was;
      moved.array(p.path).set(values);
      CAPTURE(p.path);
      CHECK((was - after[i]) / rate == doctest::Approx((above - below) / (2 * h)).epsilon(1e-5).scale(1e-3));
      ++checked;
    }
  }
  CHECK(checked > 100);
}

TEST_CASE("a decoder learns to write digits backwards, and does not see padding") {
  trainer<tiny<float>, adam> training{{.stages = 2, .micro_batches = 2, .micro_batch_size = 32},
                                      adam{.learning_rate = 6e-3},
                                      {.seed = 2, .learning_rate_schedule = warm_up{30, cosine{800, 0.05}}}};
  fit(training, pairs(2048, 5).data(), {.epochs = 25, .batch = 64});
  pairs others(64, 77);
  const step_result found = training.evaluate(others.data());
  CHECK(found.accuracy() > 0.97);

  const tensor_rows before = training.predict(others.all());
  for (int s = 0; s < others.count; ++s)
    for (int i = others.lengths[static_cast<std::size_t>(s)]; i < source; ++i)
      others.inputs[static_cast<std::size_t>(s * source + i)] = (s + i) % 6;
  const tensor_rows after = training.predict(others.all());
  for (int s = 0; s < others.count; ++s) {
    const auto one = before.of(s), other = after.of(s);
    CHECK(std::equal(one.begin(), one.end(), other.begin()));
  }
}

TEST_CASE_TEMPLATE("the recipe's options train with the same bits in every plan", Net, with<recipe>, with<tied_head>,
                   with<cut_head>, with<tied_slices>) {
  const std::uint64_t expected = trained<Net>({.stages = 1, .micro_batches = 4, .micro_batch_size = 2});
  CHECK(expected != trained({.stages = 1, .micro_batches = 4, .micro_batch_size = 2}));
  for (const int stages : {2, 5})
    CHECK(trained<Net>(
              {.stages = stages, .micro_batches = 4, .micro_batch_size = 2, .recompute = recompute_mode::always}) ==
          expected);
}

TEST_CASE("a head in slices of the table of words trains as the whole one") {
  trainer<encoder_decoder<1, 24, 2, without_drops(tied_slices), double>, adam> cut{
      {.stages = 3, .micro_batches = 4, .micro_batch_size = 2}, adam{.learning_rate = 0.01}, {.seed = 3}};
  trainer<encoder_decoder<1, 24, 2, without_drops(tied_head), double>, adam> uncut{
      {.stages = 1, .micro_batches = 4, .micro_batch_size = 2}, adam{.learning_rate = 0.01}, {.seed = 3}};
  const pairs some(8);
  for (int i = 0; i < 4; ++i) CHECK(std::abs(cut.step(some.all()).loss - uncut.step(some.all()).loss) < 1e-11);
  const auto expected = uncut.array("words.weight").values<double>(),
             found = cut.array("words.weight").values<double>();
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) most = std::fmax(most, std::abs(found[i] - expected[i]));
  CHECK(most < 1e-11);
  CHECK(cut.array("head.slice2.weight").extents == std::vector<int>{2, 16});
  CHECK(cut.array("target_words.weight").values<double>() == found);
}

TEST_CASE("first values: words of length 1, feed-forward weights by the depth") {
  trainer<with<few>, adam> plain{{.stages = 1, .micro_batches = 1, .micro_batch_size = 2}};
  trainer<with<recipe>, adam> scaled{{.stages = 1, .micro_batches = 1, .micro_batch_size = 2}};
  const auto deviation = [](auto& training, const char* path) {
    double sum = 0;
    const auto values = training.array(path).template values<float>();
    for (const float value : values) sum += double{value} * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  };
  CHECK(deviation(plain, "words.weight") == doctest::Approx(0.25).epsilon(0.2));  // 1 / root of 16
  const double xavier = std::sqrt(2.0 / (16 + 24));
  CHECK(deviation(scaled, "encoder.0.1.1.linear1.weight") == doctest::Approx(xavier / std::sqrt(10)).epsilon(0.1));
  CHECK(deviation(scaled, "decoder.1.2.1.linear2.weight") == doctest::Approx(xavier / std::sqrt(10)).epsilon(0.1));
}

TEST_CASE("paths name encoder, decoder and the shared words") {
  trainer<tiny<float>, adam> training{{.stages = 2, .micro_batches = 1, .micro_batch_size = 2}};
  std::vector<std::string> paths;
  for (const auto& one : training.parameters()) paths.push_back(one.path);
  CHECK(paths.front() == "words.weight");
  const auto has = [&](const char* path) { return std::find(paths.begin(), paths.end(), path) != paths.end(); };
  CAPTURE(paths);
  CHECK(has("encoder.1.0.1.in_proj_weight"));
  CHECK(has("decoder.0.1.2.in_proj_weight"));
  CHECK(has("target_words.weight"));
  CHECK(paths.back() == "head.weight");
}
