// optimize: yes

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/nets.hpp"
#include "support/sanitized.hpp"
#include "support/schedules.hpp"
#include "support/temporary_folder.hpp"

// A training that is stopped after k steps, saved and loaded with another plan goes on with the same bits as one that
// was not stopped.

using namespace laws;

namespace {

using net = tied_net<float>;
constexpr int steps = 22;

/// Another plan for each number: stages, schedule, recompute mode. The number of replicas is part of a step's sums, as
/// that of micro-batches is, so it stays.
plan_options plan_number(int i, int replicas = 1) {
  plan_options plan{.micro_batches = 4, .micro_batch_size = 4, .replicas = replicas};
  for (;; ++i) {
    const schedule_choice& choice = schedules::choices[static_cast<std::size_t>(i) % std::size(schedules::choices)];
    const int S = i % 5 == 4 ? layers_of<net> : 1 + i % 4;
    if (!choice.trains || !choice.admits(S, 4)) continue;
    plan.stages = S;
    plan.schedule = choice.kind;
    plan.chunks = choice.chunks;
    plan.warmup = choice.warmup;
    plan.recompute = schedules::modes[static_cast<std::size_t>(i) % 3];
    return plan;
  }
}

template <class Training>
void step(Training& training, const samples<float>& data, int from, int to, std::vector<std::uint64_t>& bits) {
  for (int i = from; i < to; ++i) {
    const step_result found = training.step(data.take(i % 5, 9 + i % 6));
    bits.push_back(std::bit_cast<std::uint64_t>(found.loss));
    bits.push_back(state_of(training));
  }
}

template <class Optimizer>
void resumes_exactly(const char* name, int replicas = 1) {
  CAPTURE(std::string(name));
  CAPTURE(replicas);
  const samples<float> data(20, 12, 1);
  const temporary_folder folder;
  for (int groups = 0; groups < 2; ++groups) {
    training_options how{.seed = 5, .learning_rate_schedule = warm_up{3, cosine{20}}, .max_grad_norm = 1};
    how.average_weights = groups == 1 ? 0.8 : 0;
    if (groups == 1)
      how.groups = {{.parameters = {"0.*"}, .rate_factor = 0.25},
                    {.parameters = {"*.running_*", "10.bias"}, .frozen = true, .may_be_empty = true}};
    std::vector<std::uint64_t> expected;
    trainer<net, Optimizer> whole(plan_number(0, replicas), Optimizer{}, how);
    step(whole, data, 0, steps, expected);
    for (int k = 1; k <= 20; k += sanitized ? 9 : replicas > 1 ? 4 : 1) {
      CAPTURE(k);
      std::vector<std::uint64_t> bits;
      {
        trainer<net, Optimizer> first(plan_number(k, replicas), Optimizer{}, how);
        step(first, data, 0, k, bits);
        first.save(folder.path(), {.keep = 1, .wait = k % 2 == 0});
        if (k % 3 == 0) step(first, data, k, k + 1, bits), bits.resize(bits.size() - 2);  // beside the writing
      }
      training_options other = how;
      other.seed = 77;  // that of the checkpoint is taken
      trainer<net, Optimizer> second(plan_number(3 * k + 1, replicas), Optimizer{}, other);
      const load_result found = second.load(folder.path());
      CHECK(found.steps == static_cast<std::uint64_t>(k));
      CHECK(second.steps() == static_cast<std::uint64_t>(k));
      step(second, data, k, steps, bits);
      CHECK(bits == expected);
      CHECK(replicas_agree(second));
      std::filesystem::remove_all(folder.path());
    }
  }
}

}  // namespace

TEST_CASE("a training that is saved and loaded with another plan goes on with the same bits") {
  resumes_exactly<sgd>("sgd");
  resumes_exactly<adam>("adam");
  resumes_exactly<adamw>("adamw");
  resumes_exactly<rmsprop>("rmsprop");
  resumes_exactly<rmsprop_tf>("rmsprop_tf");
  resumes_exactly<lion>("lion");
  resumes_exactly<adafactor>("adafactor");
  for (const int replicas : {2, 3}) resumes_exactly<adam>("adam", replicas);
  resumes_exactly<adafactor>("adafactor", 2);
}

TEST_CASE("the files do not depend on the plan") {
  const samples<float> data(20, 12, 1);
  const temporary_folder folder;
  const auto bytes_of_plan = [&](int i) {
    trainer<net, adam> training(plan_number(i), adam{}, {.seed = 5});
    std::vector<std::uint64_t> bits;
    step(training, data, 0, 2, bits);
    training.save(folder.path());
    std::string all = folder.read("step-00000002/model.safetensors");
    all += folder.read("step-00000002/optimizer.safetensors");
    std::filesystem::remove_all(folder.path());
    return all;
  };
  const std::string expected = bytes_of_plan(0);
  CHECK(expected.size() > 4000);
  for (int i = 1; i < 12; ++i) CHECK(bytes_of_plan(i) == expected);
}
