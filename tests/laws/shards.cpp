// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
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

// What replicas keep in shares changes no bit: neither of a step's numbers nor of a checkpoint.

using namespace laws;

namespace {

constexpr shard choices[] = {shard::optimizer_state, shard::gradients};

/// Whether some gradients leave the memory of their stage, so that no call adds to those of another.
template <class Training>
bool gradients_leave(const Training& training) {
  bool leave = false;
  for (int s = 0; s < training.plan().stages(); ++s) leave = leave || training.plan().requirements(s).gradients_leave;
  return leave;
}

/// Steps, an accumulated call if `accumulates`, evaluations, and a frozen layer.
template <class Net, class Optimizer, class Data>
std::vector<std::uint64_t> bits_of(const plan_options& options, training_options how, const Data& data, digest* hashes,
                                   bool accumulates) {
  how.seed = 5;
  how.max_grad_norm = 0.1;
  how.arena_fill = std::byte{0xff};
  how.canary = true;
  how.digest_calls = 6;
  trainer<Net, Optimizer> training(options, Optimizer{.learning_rate = 0.02}, how);
  std::vector<std::uint64_t> found;
  const auto add = [&](const step_result& result) {
    for (const double x : {result.loss, result.weight, result.correct, result.norm})
      found.push_back(std::bit_cast<std::uint64_t>(x));
  };
  for (const int size : {13, 4, 9, options.replicas}) {
    add(training.step(data.take(size, size)));
    found.push_back(gradients_of(training));
    found.push_back(state_of(training));
  }
  CHECK(replicas_agree(training));
  if (accumulates) {
    add(training.accumulate(data.take(0, 9)));
    found.push_back(gradients_of(training));
  } else if (gradients_leave(training)) {
    CHECK_THROWS_AS((void)training.accumulate(data.take(0, 9)), error);
  }
  add(training.step(data.take(9, 9)));
  if (how.average_weights > 0) add(training.evaluate(data.take(0, 7), weights::averaged));
  found.push_back(training.parameter_hash());
  training.freeze(0);
  add(training.step(data.take(3, 9)));
  add(training.evaluate(data.take(0, 7)));
  found.push_back(state_of(training));
  *hashes = training.digest();
  for (const stage_report& r : training.report())  // what a sum waits for is no work of a backward, nor less than none
    CHECK((r.busy(action_kind::backward) >= 0 && r.busy(action_kind::backward_parameters) >= 0));
  return found;
}

template <class Net, class Optimizer, class Data>
void same_bits(const Data& data, int stages, int replicas, const training_options& how, int turn) {
  for (const int M : {1, 3}) {
    const plan_options one{.micro_batches = M,
                           .micro_batch_size = 24 / M / replicas,
                           .recompute = recompute_mode::never,
                           .replicas = replicas};
    digest hashes[2], others;
    const std::vector<std::uint64_t> expected[] = {bits_of<Net, Optimizer>(one, how, data, &hashes[0], false),
                                                   bits_of<Net, Optimizer>(one, how, data, &hashes[1], true)};
    for (const schedule_choice& choice : schedules::choices) {
      if (!choice.trains || !choice.admits(stages, M) || left_out(turn++)) continue;
      plan_options other = one;
      other.stages = stages;
      other.schedule = choice.kind;
      other.chunks = choice.chunks;
      other.warmup = choice.warmup;
      other.shard = choices[turn % 2];
      if (choice.kind == schedule_kind::fill_drain) other.group_gradients = M, other.shard = shard::gradients;
      else other.recompute = schedules::modes[turn % 3];
      const bool leave = other.shard == shard::gradients && (M == 1 || other.group_gradients == M);
      CAPTURE(M);
      CAPTURE(stages);
      CAPTURE(replicas);
      CAPTURE(choice.name());
      CAPTURE(std::string(name_of(other.shard)));
      CHECK(bits_of<Net, Optimizer>(other, how, data, &others, !leave) == expected[!leave]);
      CHECK(!first_difference(hashes[!leave], others));
    }
  }
}

template <class Optimizer>
void optimizer_has_the_same_bits(const char* name) {
  CAPTURE(std::string(name));
  const samples<float> data(40, 12, 1);
  training_options grouped;
  grouped.average_weights = 0.8;
  grouped.groups = {{.parameters = {"0.*"}, .rate_factor = 0.25},
                    {.parameters = {"*weight"}, .layers = {"batch_norm"}, .frozen = true}};
  for (const int R : {2, 3}) {
    same_bits<tied_net<float>, Optimizer>(data, R, R, {}, R);
    same_bits<tied_net<float>, Optimizer>(data, 5 - R, R, grouped, R + 1);
  }
}

using net = tied_net<float>;
constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 4, .replicas = 2};

}  // namespace

TEST_CASE("replicas that keep shares have the bits of those that keep all, with every optimizer") {
  optimizer_has_the_same_bits<sgd>("sgd");
  optimizer_has_the_same_bits<adam>("adam");
  optimizer_has_the_same_bits<adamw>("adamw");
  optimizer_has_the_same_bits<rmsprop_tf>("rmsprop_tf");
  optimizer_has_the_same_bits<lion>("lion");
  optimizer_has_the_same_bits<adafactor>("adafactor");
  optimizer_has_the_same_bits<adafactor_with_momentum>("adafactor_with_momentum");
}

TEST_CASE("replicas that keep shares have the bits of those that keep all, with every model") {
  const samples<float> plain(40, 12, 1), channels(40, 12, 2);
  const samples<float, std::int32_t> tokens(40, 3, 3);
  for (const int R : {2, 4}) {
    same_bits<residual_net<float>, adam>(plain, 3, R, {}, R);
    same_bits<skip_net<float>, adam>(channels, 4, R, {}, R);
    same_bits<losses_net<float>, adam>(plain, 2, R, {}, R);
    same_bits<headed_net<float>, adam>(tokens, 2, R, {}, R);
    same_bits<sliced_net<float>, adafactor>(tokens, 2, R, {}, R);
  }
}

TEST_CASE("a pass brings the parameters of all shares to every replica") {
  const samples<float> data(20, 12, 1);
  for (const shard shares : choices) {
    plan_options options = two;
    options.shard = shares;
    trainer<net, adam> training(options);
    const auto own = [&](int s, int r) {
      const auto& stage = training.executor().stage(s, r);
      return std::vector<std::byte>(stage.parameters(), stage.parameters() + stage.flat_bytes());
    };
    training.step(data.take(0, 13));
    CHECK(own(0, 0) != own(0, 1));  // each has updated its share
    training.evaluate(data.take(0, 4));
    for (int s = 0; s < 2; ++s) CHECK(own(s, 0) == own(s, 1));
    for (int l = 0; l < layers_of<net>; ++l) {
      const int owner = training.executor().owner_of(l), stage = training.plan().cut().stage_of(l);
      CHECK(training.executor().stage(stage, owner).share().has(l));
      CHECK(!training.executor().stage(stage, 1 - owner).share().has(l));
    }
  }
}

TEST_CASE("checkpoints are the same files, and load into another number of replicas and another choice") {
  const samples<float> data(20, 12, 1);
  const temporary_folder folder;
  const auto options_of = [](int R, shard shares) {
    plan_options options = two;
    options.replicas = R;
    options.shard = shares;
    return options;
  };
  const training_options how{.average_weights = 0.8};
  std::vector<std::string> files;
  std::vector<std::uint64_t> states;
  for (const shard shares : {shard::none, shard::optimizer_state, shard::gradients}) {
    trainer<net, adafactor_with_momentum> training(options_of(2, shares), {}, how);
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
  trainer<net, adafactor_with_momentum> whole(options_of(3, shard::none), {}, how);
  whole.load(folder.beside("none"));
  whole.step(data.take(5, 13));
  for (const shard from : {shard::none, shard::optimizer_state, shard::gradients})
    for (const shard into : {shard::none, shard::optimizer_state, shard::gradients}) {
      CAPTURE(std::string(name_of(from)));
      CAPTURE(std::string(name_of(into)));
      trainer<net, adafactor_with_momentum> training(options_of(3, into), {}, how);
      training.step(data.take(7, 13));
      training.load(folder.beside(name_of(from)));
      CHECK(training.steps() == 3);
      training.step(data.take(5, 13));
      CHECK(state_of(training) == state_of(whole));
    }
  // A load that fails puts everything back.
  trainer<net, adafactor_with_momentum> training(options_of(2, shard::optimizer_state), {}, how), twin(two, {}, how);
  training.step(data.take(0, 13)), twin.step(data.take(0, 13));
  CHECK_THROWS_AS(training.load(folder.beside("nothing")), error);
  CHECK(state_of(training) == state_of(twin));
  training.step(data.take(1, 13)), twin.step(data.take(1, 13));
  CHECK(state_of(training) == state_of(twin));
}
