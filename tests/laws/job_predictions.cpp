#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gpipe/generate.hpp>
#include <gpipe/job.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/train/data/dataset.hpp>

#include "support/nets.hpp"
#include "support/processes.hpp"

// Predictions in the job of processes that mpirun has started. Each process makes the columns of its own slices of a
// head, and all get the rows of the whole head.

using namespace laws;

namespace {

constexpr int M = 4, B = 4, tokens = 5, vocabulary = 7;

template <class T, class... Head>
struct words_before
    : model<input<std::int32_t, tokens>, embedding<vocabulary, 8, T>, residual<rms_norm, causal_attention<2>>,
            residual<rms_norm, feed_forward<20>>, named<"head", token_head<vocabulary, Head...>>> {};
template <class T>
using whole_head = words_before<T>;
template <class T>
using cut_head = words_before<T, slices<3>>;

training_options options(process_group* job) {
  training_options o;
  o.arena_fill = std::byte{0xff};
  o.deadline = std::chrono::seconds(30);
  o.canary = true;
  o.job = job;
  return o;
}

/// The same values for both heads: arrays of the slices are parts of one.
template <class Training>
void set_values(Training& training) {
  std::size_t of_head[2]{};
  for (auto& p : training.parameters()) {
    std::size_t own = 0, &at = p.path.starts_with("head") ? of_head[p.name == "weight"] : own;
    std::vector<float> values;
    for (std::size_t i = 0; i < p.size(); ++i, ++at) values.push_back(static_cast<float>(noise(5, at)));
    p.set(values);
  }
}

const samples<float, std::int32_t> data(40, tokens, tokens);

/// Predictions of 13, 1 and 16 samples, and of 40 in several batches. Only processes that have the first layer are
/// given words, and none is given labels.
template <class T, class Training>
std::vector<float> predictions_of(Training& training, bool has_inputs) {
  set_values(training);
  std::vector<float> found;
  const auto add = [&](const tensor_rows& rows) {
    for (const T x : rows.all<T>()) found.push_back(static_cast<float>(x));
  };
  for (const int count : {13, 1, 16}) {
    batch part(count);
    if (has_inputs) part.add(*data.take(0, count).find("inputs"));
    add(training.predict(part));
  }
  add(training.predict(dataset{}.with("inputs", tokens, data.inputs)));
  return found;
}

template <class T>
void all_processes_have_all_columns() {
  const int ranks = the_job().ranks();
  trainer<whole_head<T>, sgd> alone({.micro_batches = M, .micro_batch_size = B}, sgd{});
  const std::vector<float> expected = predictions_of<T>(alone, true);
  CHECK(expected.size() == std::size_t{(13 + 1 + 16 + 40) * tokens * vocabulary});
  for (int R = 1; R <= ranks; ++R)
    for (const int stages : {ranks / R, layers_of<cut_head<T>>}) {
      if (ranks % R != 0) continue;
      CAPTURE(R);
      CAPTURE(stages);
      plan_options o{.stages = stages, .micro_batches = M, .micro_batch_size = B};
      o.workers = ranks / R, o.replicas = R;
      const bool has_inputs = the_job().rank() % (ranks / R) == 0;
      trainer<cut_head<T>, sgd> training(o, sgd{}, options(&the_job()));
      CHECK(predictions_of<T>(training, has_inputs) == expected);
      if (R > 1) continue;
      predictor<cut_head<T>> served(o, options(&the_job()));
      CHECK(predictions_of<T>(served, has_inputs) == expected);
    }
}

/// With other weights before `restore_values`, in every number of stages.
template <class Net, class Data>
void predictors_have_the_bits_of_threads(const Data& of) {
  std::vector<std::byte> values;
  trainer<Net, sgd> alone({.micro_batches = M, .micro_batch_size = B}, sgd{}, {.seed = 5});
  alone.keep_values(values);
  const tensor_rows expected = alone.predict(of.take(0, 13));
  for (int stages = the_job().ranks(); stages <= layers_of<Net>; ++stages) {
    CAPTURE(stages);
    plan_options o{.stages = stages, .micro_batches = M, .micro_batch_size = B};
    o.workers = the_job().ranks();
    predictor<Net> served(o, options(&the_job()));
    served.restore_values(values);
    CHECK(std::ranges::equal(served.predict(of.take(0, 13)).all(), expected.all()));
    CHECK(served.evaluate(of.take(0, 13)).loss == alone.evaluate(of.take(0, 13)).loss);
  }
}

}  // namespace

TEST_CASE("a predictor in processes has the bits of threads: residuals, skips, tied layers, heads") {
  predictors_have_the_bits_of_threads<residual_net<float>>(samples<float>(13, 12, 1));
  predictors_have_the_bits_of_threads<skip_net<float>>(samples<float>(13, 12, 2));
  predictors_have_the_bits_of_threads<tied_net<float>>(samples<float>(13, 12, 1));
  predictors_have_the_bits_of_threads<losses_net<float>>(samples<float>(13, 12, 1));
  predictors_have_the_bits_of_threads<headed_net<float>>(samples<float, std::int32_t>(13, 3, 3));
  predictors_have_the_bits_of_threads<sliced_net<float>>(samples<float, std::int32_t>(13, 3, 3));
}

TEST_CASE("every process has all columns of what a head in slices predicts, and needs no labels for it") {
  all_processes_have_all_columns<float>();
  all_processes_have_all_columns<bf16>();
}

TEST_CASE("processes that share a head in slices write the most likely words of its predictions") {
  trainer<cut_head<float>, sgd> training({.stages = the_job().ranks(), .micro_batches = M, .micro_batch_size = B},
                                         sgd{}, options(&the_job()));
  set_values(training);
  const std::vector<std::int32_t> prompt{3, 1};
  const generator<cut_head<float>> writer(training);
  std::vector<std::int32_t> text = prompt;
  while (text.size() < tokens) {
    std::vector<std::int32_t> padded = text;
    padded.resize(tokens);
    const tensor_rows rows = training.predict(batch(1).with("inputs", padded));
    const auto row = rows.all().subspan((text.size() - 1) * vocabulary, vocabulary);
    text.push_back(static_cast<std::int32_t>(std::ranges::max_element(row) - row.begin()));
  }
  const auto written = writer.generate(prompt, {.tokens = tokens - 2});
  CHECK(std::ranges::equal(std::span(text).subspan(2), written));
}
