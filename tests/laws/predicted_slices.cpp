// sanitizers: address
// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/model/structure/sliced_head.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/tools/scores/measures.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/nets.hpp"

// A head in slices predicts the logits of the whole head, and the same bits in every plan: for every cut, schedule,
// number of replicas and type.

using namespace laws;

namespace {

// More rows than a block of logits has; no number of slices below but 23 divides the vocabulary.
constexpr int tokens = 37, vocabulary = 23, count = 9;

template <int Tokens, class T, class... Head>
struct ending_in : model<input<std::int32_t, Tokens>, embedding<vocabulary, 6, T>,
                         residual<layer_norm, feed_forward<9>>, named<"head", token_head<vocabulary, Head...>>> {};
template <class T, class... Head>
using long_rows = ending_in<tokens, T, Head...>;

using in_three = long_rows<float, slices<3>>;
constexpr int layers = layers_of<in_three>;

const std::vector<std::int32_t>& words() {
  static const std::vector<std::int32_t> made = [] {
    std::vector<std::int32_t> all;
    for (int i = 0; i < 3 * count * 64; ++i) all.push_back(i * i % vocabulary);
    return all;
  }();
  return made;
}
/// Those of a vocabulary of 11.
std::vector<std::int32_t> short_words() {
  std::vector<std::int32_t> made = words();
  for (std::int32_t& word : made) word %= 11;
  return made;
}
batch first_samples(int samples, int length = tokens, int behind = 0) {
  const auto part =
      std::span(words()).subspan(static_cast<std::size_t>(behind * length), static_cast<std::size_t>(samples * length));
  return batch(samples).with("inputs", part);  // no labels
}

/// The same values for every number of slices: arrays of the head are parts of one.
template <class T, class Training>
void set_values(Training& training) {
  std::size_t of_head[2]{};
  for (auto& p : training.parameters()) {
    std::size_t own = 0, &at = p.path.starts_with("head") ? of_head[p.name == "weight"] : own;
    std::vector<compute_type<T>> values;
    for (std::size_t i = 0; i < p.size(); ++i, ++at)
      values.push_back(static_cast<compute_type<T>>(noise(p.name == "weight", at)));
    p.set(values);
  }
}

template <class T>
std::vector<T> copy_of(const tensor_rows& rows) {
  REQUIRE(rows.tensors() == 1);
  return {rows.all<T>().begin(), rows.all<T>().end()};
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return !a.empty() && std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

const plan_options one{.micro_batches = 3, .micro_batch_size = 3};

template <class Net, class T = float>
std::vector<T> predicted(const batch& data, const plan_options& options = one, const std::vector<int>& cut = {}) {
  training_options how;
  how.cut = cut;
  how.arena_fill = std::byte{0xff};
  trainer<Net, sgd> training(options, sgd{}, how);
  set_values<T>(training);
  return copy_of<T>(training.predict(data));
}

/// Eight samples are micro-batches of 3, 3 and 2.
template <int Tokens, class T, int N, class... Options>
void equals_the_whole_head() {
  CAPTURE(Tokens);
  CAPTURE(N);
  for (const int samples : {8, 1}) {
    const batch data = first_samples(samples, Tokens);
    const auto expected = predicted<ending_in<Tokens, T, Options...>, T>(data);
    CHECK(expected.size() == static_cast<std::size_t>(samples * Tokens * vocabulary));
    CHECK(same_bits(expected, predicted<ending_in<Tokens, T, Options..., slices<N>>, T>(data)));
  }
}

const std::vector<float>& expected_of_eight() {
  static const std::vector<float> rows = predicted<in_three>(first_samples(8));
  return rows;
}

template <int Tokens>
using whole_text = ending_in<Tokens, double>;
template <int Tokens>
using cut_text = ending_in<Tokens, double, slices<4>>;

template <int Slices>
struct translator : encoder_decoder<1, 19, 2,
                                    encoder_decoder_options{.source_tokens = 5,
                                                            .target_tokens = 34,
                                                            .vocabulary = 11,
                                                            .width = 8,
                                                            .head_width = 4,
                                                            .head_slices = Slices}> {};

}  // namespace

TEST_CASE("a head in slices predicts the logits of the whole head, in every type and number of rows") {
  equals_the_whole_head<tokens, float, 2>();
  equals_the_whole_head<tokens, float, 3>();
  equals_the_whole_head<tokens, float, 23>();  // a word each
  equals_the_whole_head<tokens, float, 4, no_bias>();
  equals_the_whole_head<tokens, double, 3>();
  equals_the_whole_head<tokens, bf16, 3>();
  equals_the_whole_head<tokens, bf16, 4, no_bias, softmax_cross_entropy_with<cross_entropy{.ignored = -100}>>();
  equals_the_whole_head<1, float, 3>();
  equals_the_whole_head<32, float, 3>();
  equals_the_whole_head<64, float, 3>();
  equals_the_whole_head<5, double, 5>();
}

TEST_CASE("a head in slices predicts the same bits at every cut") {
  for (unsigned mask = 0; mask < 1U << (layers - 1); ++mask) {
    std::vector<int> cut;
    for (int l = 1; l < layers; ++l)
      if ((mask >> (l - 1) & 1U) != 0) cut.push_back(l);
    plan_options options = one;
    options.stages = static_cast<int>(cut.size()) + 1;
    CAPTURE(cut);
    CHECK(same_bits(expected_of_eight(), predicted<in_three>(first_samples(8), options, cut)));
  }
}

TEST_CASE("a head in slices predicts the same bits with every schedule, replicas and shared packed weights") {
  for (const schedule_kind kind : schedule_kinds)
    for (const int stages : {2, layers})
      for (const int replicas : {1, 2, 3}) {
        plan_options options = one;
        options.schedule = kind, options.stages = stages;
        if (kind != schedule_kind::forward_only) options.replicas = replicas;
        options.share_packed_weights = replicas == 2;
        if (options.max_workers() == 0) continue;
        CAPTURE(name_of(kind));
        CAPTURE(stages);
        CAPTURE(replicas);
        const auto found = predicted<in_three>(first_samples(8), options);
        CHECK(same_bits(expected_of_eight(), found));
      }
}

TEST_CASE("a dataset of several batches, a predictor, and measures of what it predicts") {
  constexpr int samples = 3 * count - 5;
  const auto data = dataset{}.with("inputs", tokens, std::span(words()).first(samples * tokens));
  plan_options options = one;
  options.stages = 4;
  trainer<long_rows<float>, sgd> whole(one, sgd{});
  trainer<in_three, sgd> cut(options, sgd{});
  set_values<float>(whole), set_values<float>(cut);
  const tensor_rows found = cut.predict(data);
  const auto expected = copy_of<float>(found);
  CHECK(same_bits(copy_of<float>(whole.predict(data)), expected));
  constexpr std::size_t row = tokens * vocabulary;
  CHECK(std::ranges::equal(std::span(expected).subspan(7 * row, row), found.of(7)));

  predictor<in_three> served(options);
  set_values<float>(served);
  CHECK(same_bits(expected, copy_of<float>(served.predict(data))));

  std::vector<std::int32_t> labels;
  for (int i = 0; i < samples * tokens; ++i) labels.push_back(i * 5 % vocabulary);
  const confusion_matrix a(served.predict(data), labels), b(found, labels);
  for (int l = 0; l < vocabulary; ++l)
    for (int p = 0; p < vocabulary; ++p) CHECK(a.count(l, p) == b.count(l, p));
}

TEST_CASE("a head in slices predicts with averaged weights") {
  training_options how;
  how.average_weights = 0.5;
  trainer<in_three, sgd> cut(one, sgd{.learning_rate = 0.5}, how);
  const auto labels = std::span(words()).last(8 * tokens);
  cut.step(first_samples(8).with("labels", labels));
  trainer<in_three, sgd> averaged(one, sgd{});
  for (auto& p : averaged.parameters()) p.set(cut.array(p.path).average());
  const auto found = copy_of<float>(cut.predict(first_samples(8), weights::averaged));
  CHECK(same_bits(copy_of<float>(averaged.predict(first_samples(8))), found));
  CHECK_FALSE(same_bits(copy_of<float>(cut.predict(first_samples(8))), found));
}

TEST_CASE("a prediction changes nothing of a training, and a watched slice has no rows from it") {
  plan_options options = one;
  options.stages = 5;
  training_options how;
  how.canary = true;
  how.arena_fill = std::byte{0xff};
  trainer<in_three, sgd> training(options, sgd{.learning_rate = 0.5}, how), alone(options, sgd{.learning_rate = 0.5});
  set_values<float>(training), set_values<float>(alone);
  constexpr int first_slice = layers - 4;
  training.watch(first_slice), training.watch(first_slice - 1);
  const auto labels = std::span(words()).last(8 * tokens);
  const batch data = first_samples(8).with("labels", labels);
  for (int i = 0; i < 3; ++i) {
    const tensor_rows rows = training.predict(first_samples(8));
    if (i == 0) CHECK(same_bits(expected_of_eight(), copy_of<float>(rows)));
    CHECK(training.activation(first_slice).samples() == 0);
    CHECK(training.activation(first_slice - 1).samples() == 8);
    CHECK(training.step(data).loss == alone.step(data).loss);
    CHECK(training.activation(first_slice).samples() == 8);
  }
  CHECK(training.parameter_hash() == alone.parameter_hash());
}

TEST_CASE("the logits of a prediction stay in the stage's arena, which a predictor sees to its end") {
  for (const int stages : {1, 3, layers}) {
    plan_options options = one;
    options.stages = stages;
    training_options how;
    how.arena_fill = std::byte{0x5a};
    predictor<in_three> served(options, how);
    set_values<float>(served);
    CHECK(same_bits(expected_of_eight(), copy_of<float>(served.predict(first_samples(8)))));
    for (int s = 0; s < stages; ++s) {
      const auto& arena = served.executor().stage(s).arena();
      CHECK(arena.size() == static_cast<std::size_t>(served.plan().memory(s).total()));
      for (std::size_t i = 0; i < gpipe::detail::alignment; ++i)
        CHECK(arena.data()[arena.size() + i] == std::byte{0x5a});
    }
  }
}

TEST_CASE("a head in slices predicts in a training of several lengths") {
  plan_options options = one;
  options.stages = 3;
  trainer<lengths<whole_text, 4, 33, 40>, sgd> whole(one, sgd{});
  trainer<lengths<cut_text, 4, 33, 40>, sgd> cut(options, sgd{});
  set_values<double>(whole), set_values<double>(cut);
  for (const int length : {40, 4, 33, 40}) {
    CAPTURE(length);
    const auto expected = copy_of<double>(whole.predict(first_samples(4, length)));
    CHECK(expected.size() == static_cast<std::size_t>(4 * length * vocabulary));
    CHECK(same_bits(expected, copy_of<double>(cut.predict(first_samples(4, length)))));
  }
  CHECK(same_bits(predicted<whole_text<4>, double>(first_samples(4, 4)),
                  copy_of<double>(cut.predict(first_samples(4, 4)))));
}

TEST_CASE("a decoder with a head in slices predicts the logits of one with a whole head") {
  const auto rows = [&]<class Net>(Net, int stages) {
    plan_options options = one;
    options.stages = stages;
    trainer<Net, sgd> training(options, sgd{});
    set_values<float>(training);
    const std::vector<std::int32_t> made = short_words();
    const auto all = std::span(made);
    const std::vector<std::int32_t> of_source{5, 3, 1, 5};
    return copy_of<float>(training.predict(
        batch(4).with("inputs", all.first(4 * 5)).with("targets", all.first(4 * 34)).with("lengths", of_source)));
  };
  const auto expected = rows(translator<1>{}, 1);
  CHECK(expected.size() == std::size_t{4 * 34 * 11});
  const auto in_slices = rows(translator<3>{}, 1);
  CHECK(same_bits(expected, in_slices));
  CHECK(same_bits(in_slices, rows(translator<3>{}, 4)));
}
