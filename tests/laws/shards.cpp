// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/train/trainer_checkpoints.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"
#include "support/schedules.hpp"
#include "support/temporary_folder.hpp"
#include "support/training_bits.hpp"

// Sharded replicas change no bit: neither of a step's numbers nor of a checkpoint.

using namespace laws;

namespace {

constexpr shard choices[] = {shard::optimizer_state, shard::gradients};

void holds_for_shards(const test_model& model, rule optimizer, int stages, int replicas, training_options how,
                      int turn) {
  how.seed = 5;
  how.max_grad_norm = 0.1;
  for (const int M : {1, 3}) {
    same_bits calls{.model = model,
                    .sizes = {13, 4, 9, replicas},
                    .micro_batches = M,
                    .micro_batch_size = 24 / M / replicas,
                    .replicas = replicas,
                    .optimizer = optimizer,
                    .rate = 0.02,
                    .how = how,
                    .digest_calls = 6,
                    .accumulates = true,
                    .freezes = true};
    same_bits steps = calls;
    steps.accumulates = false, steps.digest_calls = 5;
    for (const schedule_choice& choice : schedules::choices) {
      if (!choice.trains || !choice.admits(stages, M) || left_out(turn++)) continue;
      plan_options plan = scheduled(choice, {.stages = stages, .shard = choices[turn % 2]});
      if (choice.kind == schedule_kind::fill_drain)
        plan.recompute = recompute_mode::never, plan.group_gradients = M, plan.shard = shard::gradients;
      else plan.recompute = schedules::modes[turn % 3];
      const bool leave = plan.shard == shard::gradients && (M == 1 || plan.group_gradients == M);
      (leave ? steps : calls).holds({plan});
    }
  }
}

constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 4, .replicas = 2};

}  // namespace

TEST_CASE("replicas that keep shares have the bits of those that keep all, with every optimizer") {
  training_options grouped;
  grouped.average_weights = 0.8;
  grouped.groups = {{.parameters = {"0.*"}, .rate_factor = 0.25},
                    {.parameters = {"*weight"}, .layers = {"batch_norm"}, .frozen = true}};
  for (const rule optimizer : {rule::sgd, rule::adam, rule::adamw, rule::rmsprop_tf, rule::lion, rule::adafactor,
                               rule::adafactor_with_momentum})
    for (const int R : {2, 3}) {
      holds_for_shards(models::tied, optimizer, R, R, {}, R);
      holds_for_shards(models::tied, optimizer, 5 - R, R, grouped, R + 1);
    }
}

TEST_CASE("replicas that keep shares have the bits of those that keep all, with every model") {
  for (const int R : {2, 4}) {
    holds_for_shards(models::residual, rule::adam, 3, R, {}, R);
    holds_for_shards(models::skip, rule::adam, 4, R, {}, R);
    holds_for_shards(models::losses, rule::adam, 2, R, {}, R);
    holds_for_shards(models::headed, rule::adam, 2, R, {}, R);
    holds_for_shards(models::sliced, rule::adafactor, 2, R, {}, R);
  }
}

TEST_CASE("a pass brings the parameters of all shares to every replica") {
  const test_model& data = models::tied;
  for (const shard shares : choices) {
    plan_options options = two;
    options.shard = shares;
    const auto handle = models::tied.trainer(options);
    basic_trainer& training = *handle;
    const auto own = [&](int s, int r) {
      const auto& stage = training.executor().stage(s, r);
      return std::vector<std::byte>(stage.parameters(), stage.parameters() + stage.flat_bytes());
    };
    training.step(data.take(0, 13));
    CHECK(own(0, 0) != own(0, 1));  // each has updated its share
    training.evaluate(data.take(0, 4));
    for (int s = 0; s < 2; ++s) CHECK(own(s, 0) == own(s, 1));
    for (int l = 0; l < data.layers(); ++l) {
      const int owner = training.executor().owner_of(l), stage = training.plan().cut().stage_of(l);
      CHECK(training.executor().stage(stage, owner).share().has(l));
      CHECK(!training.executor().stage(stage, 1 - owner).share().has(l));
    }
  }
}

TEST_CASE("checkpoints are the same files, and load into another number of replicas and another choice") {
  const test_model& data = models::tied;
  const temporary_folder folder;
  const auto make = [](int R, shard shares) {
    plan_options options = two;
    options.replicas = R;
    options.shard = shares;
    return models::tied.trainer(options, {.average_weights = 0.8}, rule::adafactor_with_momentum);
  };
  std::vector<std::string> files;
  std::vector<std::uint64_t> states;
  for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients}) {
    const auto handle = make(2, shares);
    basic_trainer& training = *handle;
    for (int i = 0; i < 3; ++i) training.step(data.take(i, 13));
    training.save(folder.beside(name_of(shares)));
    states.push_back(state_of(training));
    std::string all;
    for (const char* file : {"/step-00000003/model.safetensors", "/step-00000003/optimizer.safetensors"})
      all += temporary_folder::read_file(folder.beside(name_of(shares)) + file);
    files.push_back(all);
  }
  CHECK(files[0].size() > 3000);
  CHECK(files[1] == files[0]);
  CHECK(files[2] == files[0]);
  CHECK(states[1] == states[0]);
  const auto whole = make(3, shard::none);
  whole->load(folder.beside("none"));
  whole->step(data.take(5, 13));
  for (const shard from : {shard::none, shard::optimizer_state, shard::gradients})
    for (const shard into : {shard::none, shard::optimizer_state, shard::gradients}) {
      CAPTURE(std::string(name_of(from)));
      CAPTURE(std::string(name_of(into)));
      const auto handle = make(3, into);
      basic_trainer& training = *handle;
      training.step(data.take(7, 13));
      training.load(folder.beside(name_of(from)));
      CHECK(training.steps() == 3);
      training.step(data.take(5, 13));
      CHECK(state_of(training) == state_of(*whole));
    }
  // A load that fails puts everything back.
  const auto handle = make(2, shard::optimizer_state), other = make(2, shard::none);
  basic_trainer &training = *handle, &twin = *other;
  training.step(data.take(0, 13)), twin.step(data.take(0, 13));
  CHECK_THROWS_AS(training.load(folder.beside("nothing")), error);
  CHECK(state_of(training) == state_of(twin));
  training.step(data.take(1, 13)), twin.step(data.take(1, 13));
  CHECK(state_of(training) == state_of(twin));
}
