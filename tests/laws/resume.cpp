// optimize: yes

#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>

#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"
#include "support/schedules.hpp"
#include "support/temporary_folder.hpp"
#include "support/training_bits.hpp"

// A training that is stopped after k steps, saved and loaded with another plan goes on with the same bits as one that
// was not stopped.

using namespace laws;

namespace {

constexpr int steps = 22;

/// Another plan for each number: stages, schedule, recompute mode. The number of replicas is part of a step's sums, as
/// that of micro-batches is, so it stays.
plan_options plan_number(int i, int replicas = 1) {
  for (;; ++i) {
    const schedule_choice& choice = schedules::choices[static_cast<std::size_t>(i) % std::size(schedules::choices)];
    const int S = i % 5 == 4 ? models::tied.layers() : 1 + i % 4;
    if (!choice.trains || !choice.admits(S, 4)) continue;
    return scheduled(choice, {.stages = S,
                              .micro_batches = 4,
                              .micro_batch_size = 4,
                              .recompute = schedules::modes[static_cast<std::size_t>(i) % 3],
                              .replicas = replicas});
  }
}

void step(basic_trainer& training, int from, int to, training_bits& found) {
  for (int i = from; i < to; ++i) {
    found.push_back(std::bit_cast<std::uint64_t>(training.step(models::tied.take(i % 5, 9 + i % 6)).loss));
    found.push_back(state_of(training));
  }
}

void resumes_exactly(rule optimizer, int replicas = 1) {
  CAPTURE(rule_names[static_cast<int>(optimizer)]);
  CAPTURE(replicas);
  const auto make = [&](int plan, const training_options& how) {
    return models::tied.trainer(plan_number(plan, replicas), how, optimizer);
  };
  const temporary_folder folder;
  for (int groups = 0; groups < 2; ++groups) {
    training_options how{.seed = 5, .learning_rate_schedule = warm_up{3, cosine{20}}, .max_grad_norm = 1};
    how.average_weights = groups == 1 ? 0.8 : 0;
    if (groups == 1)
      how.groups = {{.parameters = {"0.*"}, .rate_factor = 0.25},
                    {.parameters = {"*.running_*", "10.bias"}, .frozen = true, .may_be_empty = true}};
    training_bits expected;
    step(*make(0, how), 0, steps, expected);
    for (int k = 1; k <= 20; k += sanitized ? 9 : replicas > 1 ? 4 : 1) {
      CAPTURE(k);
      training_bits found;
      {
        const auto first = make(k, how);
        step(*first, 0, k, found);
        first->save(folder.path(), {.keep = 1, .wait = k % 2 == 0});
        if (k % 3 == 0) step(*first, k, k + 1, found), found.resize(found.size() - 2);  // beside the writing
      }
      training_options other = how;
      other.seed = 77;  // that of the checkpoint is taken
      const auto second = make(3 * k + 1, other);
      CHECK(second->load(folder.path()).steps == static_cast<std::uint64_t>(k));
      CHECK(second->steps() == static_cast<std::uint64_t>(k));
      step(*second, k, steps, found);
      CHECK(found == expected);
      CHECK(replicas_agree(*second));
      std::filesystem::remove_all(folder.path());
    }
  }
}

}  // namespace

TEST_CASE("a training that is saved and loaded with another plan goes on with the same bits") {
  for (const rule optimizer :
       {rule::sgd, rule::adam, rule::adamw, rule::rmsprop, rule::rmsprop_tf, rule::lion, rule::adafactor})
    resumes_exactly(optimizer);
  for (const int replicas : {2, 3}) resumes_exactly(rule::adam, replicas);
  resumes_exactly(rule::adafactor, 2);
}

TEST_CASE("the files do not depend on the plan") {
  const temporary_folder folder;
  const auto bytes_of_plan = [&](int i) {
    const auto training = models::tied.trainer(plan_number(i), {.seed = 5});
    training_bits found;
    step(*training, 0, 2, found);
    training->save(folder.path());
    std::string all = folder.read("step-00000002/model.safetensors");
    all += folder.read("step-00000002/optimizer.safetensors");
    std::filesystem::remove_all(folder.path());
    return all;
  };
  const std::string expected = bytes_of_plan(0);
  CHECK(expected.size() > 4000);
  for (int i = 1; i < 12; ++i) CHECK(bytes_of_plan(i) == expected);
}
