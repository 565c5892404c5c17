#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/generate.hpp>
#include <gpipe/job.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/processes.hpp"

// Text in the job of processes that mpirun has started, beside that of a process alone.

using namespace gpipe;

namespace {

training_options options(process_group* job) {
  training_options o;
  o.seed = 5;
  o.deadline = std::chrono::seconds(30);
  if (job != nullptr) o.job = &the_job();
  return o;
}

/// The embedding's weight is also that of the head, in the last stage.
struct writing
    : model<input<std::int32_t, 16>, tied<"words", embedding<13, 16>>, learned_positions<16>,
            repeat<3, sequence<residual<layer_norm, causal_attention<2>>, residual<layer_norm, linear<16>, gelu>>>,
            layer_norm, tied<"words", token_head<13>>> {};

/// Texts, and the bits of log probabilities, before and after other weights.
std::vector<std::int64_t> texts_of(generator<writing>& from, trainer<writing, adam>& training) {
  std::vector<std::int64_t> found;
  const std::vector<std::int32_t> prompt{3, 4, 8};
  for (int round = 0; round < 2; ++round) {
    for (const std::int32_t token : from.generate(prompt, {.tokens = 13, .temperature = 2, .top_k = 7}))
      found.push_back(token);
    for (const continuation& text : from.beam_search(prompt, {.tokens = 9, .beams = 3, .end = 5})) {
      found.push_back(std::bit_cast<std::int64_t>(text.log_probability));
      found.insert(found.end(), text.tokens.begin(), text.tokens.end());
    }
    training.set_parameter(1, "weight", std::vector<float>(16 * 16, 0.25F));
    from.refresh(training);
  }
  return found;
}

constexpr encoder_decoder_options tied{.source_tokens = 6,
                                       .target_tokens = 10,
                                       .vocabulary = 13,
                                       .width = 16,
                                       .head_width = 8,
                                       .final_norms = true,
                                       .tied_head = true,
                                       .head_slices = 3};
/// The last stages read rows of the first one's table of words, and what the encoder writes.
struct translating : encoder_decoder<2, 24, 2, tied> {};

std::vector<std::int64_t> translations_of(const generator<translating>& from) {
  std::vector<std::int64_t> found;
  for (const std::vector<std::int32_t>& source : {std::vector<std::int32_t>{4}, {3, 7, 1}, {5, 5, 0, 12, 1, 9}}) {
    for (const std::int32_t token : from.generate({1}, {.tokens = 10, .end = 2, .source = source}))
      found.push_back(token);
    for (const continuation& text :
         from.beam_search({1}, {.tokens = 9, .beams = 3, .end = 2, .length_power = .6, .source = source})) {
      found.push_back(std::bit_cast<std::int64_t>(text.log_probability));
      found.insert(found.end(), text.tokens.begin(), text.tokens.end());
    }
  }
  return found;
}

/// The processes of a replica's stages, such as 1 0 0. Empty: the devices name none.
struct job_stages {
  int stages, replicas = 1;
  std::vector<int> processes{};
};

/// Plans in which a worker's number is not its rank: stages in processes 1 0 0, 0 1 1 and 1 0 1 0, or 2 1 0 0 and so on
/// in larger jobs; processes with several workers; two replicas of these.
std::vector<job_stages> job_stage_lists(int ranks) {
  std::vector<job_stages> lists;
  const auto add = [&](int processes, int replicas) {
    std::vector<int> ascending(static_cast<std::size_t>(processes));
    for (int p = 0; p < processes; ++p) ascending[static_cast<std::size_t>(p)] = p;
    std::vector<int> descending(ascending.rbegin(), ascending.rend()), twice = descending;
    twice.insert(twice.end(), descending.begin(), descending.end());
    descending.push_back(0), ascending.push_back(processes - 1);
    for (const auto& named : {descending, ascending, twice})
      lists.push_back({static_cast<int>(named.size()), replicas, named});
    for (const int stages : {processes + 1, 2 * processes}) lists.push_back({stages, replicas});
  };
  add(ranks, 1);
  if (ranks % 2 == 0) add(ranks / 2, 2);
  return lists;
}

}  // namespace

TEST_CASE("a job writes the same texts as one process, wherever its stages are") {
  trainer<writing, adam> twin(plan_options{.micro_batch_size = 1}, adam{}, options(nullptr));
  const std::vector<std::int32_t> prompt{3, 4, 8};
  const auto texts = [&](const auto& writer) { return writer.generate(prompt, {.tokens = 13, .temperature = 2}); };
  const auto wanted = texts(generator<writing>(twin));
  trainer<translating, adam> translating_twin(plan_options{.micro_batch_size = 1}, adam{}, options(nullptr));
  const auto translated = translations_of(generator<translating>(translating_twin));
  for (const job_stages& layout : job_stage_lists(the_job().ranks())) {
    CAPTURE(layout.stages);
    CAPTURE(layout.replicas);
    CAPTURE(layout.processes.size());
    plan_options o{.stages = layout.stages, .micro_batches = 1, .micro_batch_size = 1, .replicas = layout.replicas};
    std::vector<device_spec> devices;
    for (const int process : layout.processes) devices.push_back(this_cpu.in_process(process));
    if (!devices.empty()) o.devices = devices.data(), o.device_count = static_cast<int>(devices.size());
    trainer<writing, adam> training(o, adam{}, options(&the_job()));
    CHECK(texts(generator<writing>(training)) == wanted);
    trainer<translating, adam> translator(o, adam{}, options(&the_job()));
    CHECK(translations_of(generator<translating>(translator)) == translated);
  }
}

TEST_CASE("processes that share an encoder and a decoder write the same texts as one") {
  const int ranks = the_job().ranks();
  const plan_options o{.stages = ranks, .micro_batches = 1, .micro_batch_size = 1};
  trainer<translating, adam> training(o, adam{}, options(&the_job())), twin(o, adam{}, options(nullptr));
  const generator<translating> from(training), alone(twin);
  CHECK(from.parameter_bytes() < alone.parameter_bytes());
  CHECK(translations_of(from) == translations_of(alone));

  const bool differs = the_job().rank() == ranks - 1;
  std::string said;
  try {
    from.generate({1}, {.tokens = 3, .end = 2, .source = {3, differs ? 2 : 1}});
  } catch (const error& cause) {
    said = cause.wrong();
  }
  CHECK(said == "ranks 0 and " + std::to_string(ranks - 1) + " do not agree on the source");
  CHECK(translations_of(from) == translations_of(alone));
}

TEST_CASE("processes that share a model write the same texts as one, and each has its part of the parameters") {
  const int ranks = the_job().ranks();
  const plan_options o{.stages = ranks, .micro_batches = 1, .micro_batch_size = 1};
  trainer<writing, adam> training(o, adam{}, options(&the_job())), twin(o, adam{}, options(nullptr));
  generator<writing> from(training), alone(twin);
  CHECK(from.parameter_bytes() < alone.parameter_bytes() * 7 / 10);
  CHECK(texts_of(from, training) == texts_of(alone, twin));

  const bool differs = the_job().rank() == ranks - 1;
  std::string said;
  try {
    from.generate(std::vector<std::int32_t>{3, differs ? 2 : 1});
  } catch (const error& cause) {
    said = cause.wrong();
  }
  CHECK(said == "ranks 0 and " + std::to_string(ranks - 1) + " do not agree on the prompt");
  said.clear();
  try {  // it fails in one process, in the middle of a call of all
    from.generate(std::vector<std::int32_t>{3, 1}, {.tokens = 5, .threads = differs ? -1 : 1});
  } catch (const error& cause) {
    said = cause.wrong();
    CHECK(cause.where().rank == ranks - 1);
  }
  CHECK(said == "threads is -1");
  CHECK(texts_of(from, training) == texts_of(alone, twin));
}

TEST_CASE("replicas that have updated their shares write the texts of those that keep all") {
  const int ranks = the_job().ranks();
  plan_options o{.micro_batch_size = 2, .replicas = ranks};
  trainer<writing, adam> twin(o, adam{.learning_rate = 0.1}, options(nullptr));
  o.shard = shard::optimizer_state;
  trainer<writing, adam> training(o, adam{.learning_rate = 0.1}, options(&the_job()));
  std::vector<std::int32_t> words;
  for (int i = 0; i < 2 * ranks * 16; ++i) words.push_back(i * i % 13);
  const batch data = batch(2 * ranks).with("inputs", words).with("labels", words);
  training.step(data), twin.step(data);
  generator<writing> from(training), alone(twin);
  CHECK(texts_of(from, training) == texts_of(alone, twin));
}
