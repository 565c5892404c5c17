// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <vector>

#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/record/digest.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"
#include "support/training_bits.hpp"

// Accumulated calls, frozen and watched layers, and predictions have the same bits in every plan. Accumulated calls and
// the step after them are one mini-batch, and the next one begins anew: gradients, weights, random numbers and the
// statistics of layers with state. Another way to write a network has its bits.

using namespace laws;

namespace {

/// Two calls and the step over both, with frozen and watched layers; then a short step without; predictions.
training_bits train_in_parts(const test_model& model, const plan_options& options, gpipe::digest& found) {
  const auto training = model.trainer(
      options, {.seed = 11, .max_grad_norm = 0.1, .arena_fill = std::byte{0xff}, .digest_calls = 3}, rule::adam, 0.05);
  training_bits all;
  const int L = model.layers(), watched[] = {0, 4, 7, L - 2};
  for (const int layer : watched) training->watch(layer);
  const auto record = [&](const step_result& result) {
    append(all, result);
    append(all, *training);
    CHECK(replicas_agree(*training));
    for (const int layer : watched) {
      append(all, training->activation(layer));
      append(all, training->activation_gradient(layer));
    }
  };
  training->freeze(3, 6);
  record(training->accumulate(model.take(0, 9)));
  training->freeze(L - 4, L - 3);
  record(training->accumulate(model.take(9, 3)));
  record(training->step(model.take(12, 6)));
  training->unfreeze(0, L);
  record(training->step(model.take(19 - options.replicas, options.replicas), 0.01));
  append(all, training->predict(model.inputs(19)));
  CHECK(training->digest().calls() == 3);
  found = training->digest();
  return all;
}

void holds_in_parts(const test_model& model, int replicas = 1) {
  gpipe::digest hashes, others;
  plan_options options{
      .micro_batches = 5, .micro_batch_size = 4, .recompute = recompute_mode::never, .replicas = replicas};
  const training_bits expected = train_in_parts(model, options, hashes);
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_v})
    for (const int S : {1, 2, 3, 4, 8, model.layers()})
      for (const recompute_mode mode : in_turn(kept_modes, S)) {
        options.stages = S, options.schedule = schedule, options.recompute = mode;
        if (!options.chosen_schedule().admits(S, 5)) continue;
        INFO("stages ", S, ", ", name_of(schedule));
        CHECK(train_in_parts(model, options, others) == expected);
        CHECK_FALSE(first_difference(hashes, others));
      }
}

/// One step over the first 17 samples, in calls of `sizes`, with micro-batches of at most 3.
training_bits step_in_calls(const test_model& model, int S, int M, std::initializer_list<int> sizes) {
  const auto training =
      model.trainer({.stages = S, .micro_batches = M, .micro_batch_size = 3}, {.max_grad_norm = 0.1}, rule::adam, 0.05);
  training_bits found;
  int first = 0;
  for (const int size : sizes) {
    if (first + size < 17) training->accumulate(model.take(first, size));
    else append(found, training->step(model.take(first, size)));
    first += size;
  }
  append(found, *training);
  return found;
}

/// A training in one call per mini-batch, and a twin in several, of two micro-batches each.
struct twins {
  std::shared_ptr<basic_trainer> whole, parts;
  int first = 0;

  explicit twins(int micro_batches)
      : whole(models::batch_norms.trainer({.micro_batches = micro_batches, .micro_batch_size = 1})),
        parts(models::batch_norms.trainer({.stages = 3, .micro_batches = 2, .micro_batch_size = 1})) {}
  /// A mini-batch of `count` samples.
  void step(int count) {
    const batch all = models::batch_norms.take(first, count);
    for (; count > 2; count -= 2, first += 2) parts->accumulate(models::batch_norms.take(first, 2));
    parts->step(models::batch_norms.take(first, count));
    whole->step(all);
    first += count;
    CHECK(state_of(*parts) == state_of(*whole));
    const batch few = models::batch_norms.take(0, 2);
    CHECK(parts->evaluate(few).loss == whole->evaluate(few).loss);
  }
};

}  // namespace

TEST_CASE("accumulated calls, frozen and watched layers, predictions, hashes: the same bits for every S, recompute") {
  holds_in_parts(models::residual);
}

TEST_CASE("accumulated calls with batch norm and tied parameters: the same bits") { holds_in_parts(models::tied); }

TEST_CASE("accumulated calls with replicas: the same bits") {
  holds_in_parts(models::tied, 2);
  holds_in_parts(models::residual, 3);
}

TEST_CASE("calls with the micro-batches of one larger step equal that step, to the bit") {
  for (const test_model* model : {&models::residual, &models::tied}) {  // with dropout, and weights other than 1
    const training_bits whole = step_in_calls(*model, 1, 6, {17});
    for (const int S : {1, 2, 5}) {
      CHECK(step_in_calls(*model, S, 2, {6, 6, 5}) == whole);
      CHECK(step_in_calls(*model, S, 3, {9, 8}) == whole);
      CHECK(step_in_calls(*model, S, 3, {3, 9, 5}) != whole);  // micro-batches of 1 sample
    }
  }
}

TEST_CASE("steps after accumulated calls have the bits of a twin that never accumulates") {
  twins both(4);
  for (int mini_batch = 0; mini_batch < 2; ++mini_batch) both.step(4);
  // One more step, of one call: nothing of the calls before is left.
  for (int step = 0; step < 2; ++step) both.step(2);
  // Neither of calls whose gradients were dropped.
  both.parts->accumulate(models::batch_norms.take(both.first, 2));
  both.parts->discard_accumulated();
  both.step(2);
}

TEST_CASE("a mini-batch of three calls has the bits of one call") {
  twins both(6);
  for (int mini_batch = 0; mini_batch < 4; ++mini_batch) both.step(6);
}

TEST_CASE("a tied parameter's gradient is the sum over its uses, and counts once in the norm") {
  const batch data = models::shared_layer.take(0, 16);
  for (const int S : {1, 2, 4}) {
    const plan_options options{.stages = S, .micro_batches = 4, .micro_batch_size = 4};
    const auto owner = models::shared_layer.trainer(options, {}, rule::sgd),
               twin = models::two_layers.trainer(options, {}, rule::sgd);
    basic_trainer &one = *owner, &two = *twin;
    for (const char* which : {"weight", "bias"}) {
      for (const int layer : {0, 2}) two.array(layer, which).set(one.parameter(0, which));
      two.array(3, which).set(one.parameter(3, which));
    }
    const auto before = one.parameter(0, "weight");
    const step_result found = one.step(data);
    CHECK(found.loss == two.step(data).loss);
    double square = 0;
    for (const int l : {0, 3})
      for (const char* which : {"weight", "bias"}) {
        const auto sum = one.array(l, which).gradient(), first = two.array(l, which).gradient(),
                   second = two.array(2, which).gradient();
        for (std::size_t i = 0; i < sum.size(); ++i) {
          CHECK(sum[i] == (l == 0 ? first[i] + second[i] : first[i]));
          square += static_cast<double>(sum[i]) * static_cast<double>(sum[i]);
        }
      }
    CHECK(found.norm == doctest::Approx(std::sqrt(square) / found.weight));
    CHECK(one.parameter(0, "weight") == one.parameter(2, "weight"));
    CHECK(one.array(0, "weight").gradient() == one.array(2, "weight").gradient());
    CHECK(one.parameter(0, "weight") != before);
  }
}

TEST_CASE("a residual written as a skip has the residual's bits") {
  const auto run = [](const test_model& model, const std::vector<int>& cut) {
    const int S = static_cast<int>(cut.size()) + 1;
    const auto training =
        model.trainer({.stages = S, .micro_batches = 4, .micro_batch_size = 4}, {.cut = cut}, rule::adam);
    training->step(model.take(0, 16));
    return state_of(*training) ^ gradients_of(*training);
  };
  const auto expected = run(models::written_residual, {});
  for (const std::vector<int>& cut : {std::vector<int>{}, {1, 2, 3, 4}, {1, 4}, {2, 3}})
    for (const test_model* model : {&models::written_skip, &models::written_residual})
      CHECK(run(*model, cut) == expected);
}
