#include <gpipe/model/gpt2.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gpipe.hpp>

using namespace gpipe;

static_assert(network_of<gpt2<12, 768>>.parameters() == 124'439'808);
static_assert(network_of<gpt2<24, 1024>>.parameters() == 354'823'168);
static_assert(network_of<gpt2<36, 1280>>.parameters() == 774'030'080);
static_assert(network_of<gpt2<48, 1600>>.parameters() == 1'557'611'200);

// Options by name give the same layers as sizes by their order.
static_assert(std::is_same_v<gpt2_with<2, 8, gpt2_options{.heads = 2, .tokens = 5, .vocabulary = 11}>::items,
                             gpt2<2, 8, 2, 5, 11>::items>);
static_assert(std::is_same_v<gpt2_with<12, 768>::items, gpt2<12, 768>::items>);
// Five of 16 positions are used.
constexpr gpt2_options sixteen{.heads = 2, .tokens = 5, .vocabulary = 11, .positions = 16};
static_assert(network_of<gpt2_with<2, 8, sixteen>>.parameters() == network_of<gpt2<2, 8, 2, 5, 11>>.parameters() + 88);
// Dropout behind the embeddings, and twice in each block, without parameters.
constexpr gpt2_options dropping{.heads = 2, .tokens = 5, .vocabulary = 11, .dropout = 10};
static_assert(layers_of<gpt2_with<2, 8, dropping>> == layers_of<gpt2<2, 8, 2, 5, 11>> + 5);
static_assert(network_of<gpt2_with<2, 8, dropping>>.parameters() == network_of<gpt2<2, 8, 2, 5, 11>>.parameters());
// Slices of the head share the embedding's rows.
constexpr gpt2_options in_slices{.heads = 2, .tokens = 5, .vocabulary = 11, .head_slices = 3};
static_assert(layers_of<gpt2_with<2, 8, in_slices>> == layers_of<gpt2<2, 8, 2, 5, 11>> + 2);
static_assert(network_of<gpt2_with<2, 8, in_slices>>.parameters() == network_of<gpt2<2, 8, 2, 5, 11>>.parameters());

namespace {

constexpr int tokens = 5, vocabulary = 11;
using tiny = gpt2<2, 8, 2, tokens, vocabulary>;

struct run {
  std::vector<double> losses;
  std::uint64_t hash;
  bool operator==(const run&) const = default;
};

struct texts {
  std::vector<std::int32_t> inputs, labels;
  texts() {
    for (int i = 0; i < 8 * tokens; ++i) inputs.push_back(i * 7 % vocabulary), labels.push_back(i * 5 % vocabulary);
  }
  batch all() const { return batch(8).with("inputs", inputs).with("labels", labels); }
};

run trained(const plan_options& plan) {
  trainer<tiny, adam> training{plan, adam{.learning_rate = 0.01}, {.seed = 3}};
  const texts data;
  run found;
  for (int i = 0; i < 3; ++i) found.losses.push_back(training.step(data.all()).loss);
  found.hash = training.parameter_hash();
  return found;
}

}  // namespace

TEST_CASE("the shared weight of embedding and head trains with the same bits in every plan") {
  const run expected = trained({.stages = 1, .micro_batches = 4, .micro_batch_size = 2});
  CHECK(expected.losses[2] < expected.losses[0]);
  for (const int stages : {2, 3, 5, layers_of<tiny>})
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

TEST_CASE("with a head in slices it trains, predicts and writes as with a whole one") {
  const plan_options plan{.stages = 3, .micro_batches = 4, .micro_batch_size = 2};
  trainer<tiny, adam> whole{plan, adam{.learning_rate = 0.01}, {.seed = 3}};
  trainer<gpt2_with<2, 8, in_slices>, adam> cut{plan, adam{.learning_rate = 0.01}, {.seed = 3}};
  const texts data;
  CHECK(cut.predict(data.all()).all<float>() == whole.predict(data.all()).all<float>());
  for (int i = 0; i < 3; ++i)
    CHECK(cut.step(data.all()).loss == doctest::Approx(whole.step(data.all()).loss).epsilon(1e-5));
  const std::vector<std::int32_t> prompt{0, 7};
  CHECK(generator<gpt2_with<2, 8, in_slices>>(cut).generate(prompt, {.tokens = 3}) ==
        generator<tiny>(whole).generate(prompt, {.tokens = 3}));
}

TEST_CASE("in bf16 it learns nearly as much, and a generator writes from its parameters") {
  trainer<both_precisions<tiny>, adam> training{
      {.stages = 2, .micro_batches = 4, .micro_batch_size = 2, .precision = precision::bf16},
      adam{.learning_rate = 0.02},
      {.seed = 3}};
  trainer<tiny, adam> wide{
      {.stages = 2, .micro_batches = 4, .micro_batch_size = 2}, adam{.learning_rate = 0.02}, {.seed = 3}};
  const texts data;
  for (int i = 0; i < 60; ++i) training.step(data.all()), wide.step(data.all());
  const double narrow_loss = training.evaluate(data.all()).loss, wide_loss = wide.evaluate(data.all()).loss;
  CHECK(narrow_loss == doctest::Approx(wide_loss).epsilon(0.1));
  CHECK(narrow_loss != wide_loss);
  const std::vector<std::int32_t> prompt{0, 7};
  CHECK(generator<tiny>(training).generate(prompt, {.tokens = 3}) ==
        generator<tiny>(wide).generate(prompt, {.tokens = 3}));
}

TEST_CASE("paths are those of Hugging Face, and the head's weight is the embedding's") {
  trainer<tiny, adam> training{{.stages = 3, .micro_batches = 1, .micro_batch_size = 2}};
  std::vector<std::string> paths;
  for (const auto& one : training.parameters()) paths.push_back(one.path);
  CHECK(paths.size() == 2 + 2 * 12 + 2 + 1);
  CHECK(paths.front() == "wte.weight");
  CHECK(paths[1] == "wpe.weight");
  CHECK(paths[2] == "h.0.ln_1.weight");
  std::vector<std::string> dropped;
  for (const auto& one : trainer<gpt2_with<2, 8, dropping>, adam>{{.micro_batch_size = 2}}.parameters())
    dropped.push_back(one.path);
  CHECK(dropped == paths);
  CHECK(paths.back() == "lm_head.weight");
  CHECK(training.parameter("lm_head.weight") == training.parameter("wte.weight"));
  std::vector<float> other(vocabulary * 8, 0.25F);
  training.array("lm_head.weight").set(other);
  CHECK(training.parameter("wte.weight") == other);
}

TEST_CASE("labels of each token count in loss and accuracy") {
  trainer<tiny, adam> training{{.stages = 2, .micro_batches = 4, .micro_batch_size = 2}, adam{.learning_rate = 0.02}};
  const texts data;
  const step_result first = training.evaluate(data.all());
  CHECK(first.loss == doctest::Approx(2.398).epsilon(0.02));  // log 11
  CHECK(first.weight == 8 * tokens);
  const dataset all = dataset().with("inputs", tokens, data.inputs).with("labels", tokens, data.labels);
  fit(training, all, {.epochs = 60, .batch = 8});
  const step_result last = training.evaluate(all);
  CHECK(last.loss < first.loss / 2);
  CHECK(last.accuracy() > 0.7);
}
