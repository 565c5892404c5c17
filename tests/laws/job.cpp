#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/models.hpp"
#include "support/nets.hpp"
#include "support/same_bits.hpp"
#include "support/threaded_job.hpp"
#include "support/training_bits.hpp"
#include "support/wide.hpp"

#include <gpipe/job.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>

// The contract of gpipe/transport/contract/process_group.hpp and the laws of trainings in a job, over processes that
// are threads. The wire between them is late, delivers slots in any order, and loses messages on demand.

using namespace laws;
using namespace std::chrono_literals;

namespace {

constexpr wait_context sends{.stage = 3, .micro_batch = 5, .action = "send"};

/// Two values in slots of their own at each end: 2 of the sender, 3 of the receiver.
struct ends {
  static constexpr int M = 6;
  std::array<std::uint32_t, 3 * 4> first_out{}, first_in{};
  std::array<std::uint64_t, 3 * 4> second_out{}, second_in{};

  static std::byte* bytes(auto& from) { return reinterpret_cast<std::byte*>(from.data()); }
  channel_layout out(int peer) {
    return {peer, 4, {{bytes(first_out), 16, 4}, {bytes(second_out), 32, 8}}, {0, 1, 2, 0, 1, 2}, {0, 1, 0, 1, 0, 1}};
  }
  channel_layout in(int peer) {
    return {peer, 4, {{bytes(first_in), 16, 4}, {bytes(second_in), 32, 8}}, {0, 1, 2, 0, 1, 2}, {0, 1, 2, 0, 1, 2}};
  }
};

}  // namespace

TEST_CASE("messages arrive in each slot in order, with their number of samples, and again after a failure") {
  threaded::job job(2);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 20; ++round) {
    job.lose_after(round % 2 == 0 ? -1 : 10 * round);
    job.run([&](process_group& here) {
      ends memory;
      const bool sender = here.rank() == 0;
      const auto out = sender ? here.sender(memory.out(1)) : nullptr;
      const auto in = sender ? nullptr : here.receiver(memory.in(0));
      const auto exchange = [&](int rounds) {
        for (int i = 0; i < rounds; ++i)
          for (int m = 0; m < ends::M; ++m) {
            const auto n = static_cast<std::size_t>(1 + (i + m) % 4), at = static_cast<std::size_t>(m % 2) * 4;
            const auto slot = static_cast<std::size_t>(m % 3) * 4;
            const auto number = static_cast<std::uint32_t>(100 * i + m);
            if (sender) {
              out->acquire(m, sends);
              for (std::size_t k = 0; k < n; ++k) memory.second_out[at + k] = memory.first_out[at + k] = number;
              out->publish(m, static_cast<int>(n));
            } else {
              if (in->consume(m, sends) != static_cast<int>(n)) ++wrong;
              for (std::size_t k = 0; k < n; ++k)
                if (memory.first_in[slot + k] != number || memory.second_in[slot + k] != number) ++wrong;
              in->release(m);
            }
          }
      };
      try {
        exchange(40);
        std::byte done{1};
        here.broadcast(&done, 1, 1, 0);
        if (round % 2 != 0) ++wrong;
      } catch (const gpipe::detail::interrupted&) {
        if (here.recover().wrong() != "a message was lost") ++wrong;
      }
      exchange(2);
      std::byte done{1};
      here.broadcast(&done, 1, 1, 0);  // no end is destroyed while a message is under way
    });
  }
  CHECK(wrong == 0);
  CHECK(job.overtaken() > 0);
}

TEST_CASE("a rank that makes another call is named on all ranks, and they go on together") {
  threaded::job job(3);
  std::atomic<int> wrong{0};
  job.run([&](process_group& here) {
    const auto all = here.make_all_gather({8, 8, 8});
    for (int odd = 0; odd < 4; ++odd) {  // rank 3 does not exist: no rank differs
      const agreed_value samples[] = {agreed_value::number("the samples of the call", here.rank() == odd ? 9 : 16)};
      const std::string values = odd == 0 ? ": 9 and 16" : ": 16 and 9";
      std::string said = odd == 3 ? "do not agree on the samples of the call" + values : "", agreed = said;
      try {
        here.enter(collective_kind::step, samples);
        all->gather({.action = "gather"}, {});
      } catch (const gpipe::detail::interrupted&) {
        said = here.recover().wrong();
      }
      try {
        here.agree(collective_kind::make, samples);
      } catch (const error& cause) {
        agreed = cause.wrong();
      }
      for (const std::string& text : {said, agreed})
        if (text.find("do not agree on the samples of the call" + values) == std::string::npos) ++wrong;
      std::byte done{1};
      here.broadcast(&done, 1, 1, 0);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a deadline without progress ends a wait, and the error names it") {
  threaded::job job(2);
  std::string said;
  job.run([&](process_group& here) {
    here.expect(30ms);
    ends memory;
    const auto in = here.rank() == 0 ? here.receiver(memory.in(1)) : nullptr;
    try {
      if (here.rank() == 0) in->consume(5, sends);
      else std::this_thread::sleep_for(100ms), here.begin({});
    } catch (const error& cause) {
      said = cause.what();
      here.fail(cause);
    } catch (const gpipe::detail::interrupted&) {
    }
    here.recover();
  });
  CHECK(said.find("stage 3, micro-batch 5, send: waits for rank 1 to fill slot 2") == 0);
}

TEST_CASE("a job whose messages are late and overtake one another has the bits of threads") {
  plan_options options{.micro_batches = 5, .micro_batch_size = 4};
  same_bits law{.model = models::tied, .accumulates = true, .predicts = true};
  const training_bits expected = law.run({options});
  struct {
    schedule_kind schedule;
    int stages, workers;
  } const cases[] = {{schedule_kind::fill_drain, 2, 0},  {schedule_kind::fill_drain, 4, 0},
                     {schedule_kind::one_f_one_b, 3, 0}, {schedule_kind::zb_h1, 4, 0},
                     {schedule_kind::zb_v, 4, 0},        {schedule_kind::one_f_one_b, 5, 2}};
  std::uint32_t random = 0;
  for (const auto& c : cases)
    for (const recompute_mode mode : {recompute_mode::always, recompute_mode::never}) {
      options.schedule = c.schedule, options.stages = c.stages, options.workers = c.workers, options.recompute = mode;
      CAPTURE(name_of(c.schedule));
      CAPTURE(c.stages);
      threaded::job job(options.chosen_schedule().workers(options.stages), ++random);
      std::vector<training_bits> found(static_cast<std::size_t>(job.ranks()));
      job.run([&](process_group& here) {
        same_bits its = law;
        its.how.job = &here;
        found[static_cast<std::size_t>(here.rank())] = its.run({options});
      });
      for (const training_bits& of_rank : found) CHECK(of_rank == expected);
    }
}

TEST_CASE("replicas in a job sum gradients during backward and have the bits of threads") {
  for (const auto schedule : {schedule_kind::fill_drain, schedule_kind::zb_h1}) {
    const int S = schedule == schedule_kind::zb_h1 ? 2 : 1;
    plan_options options{.stages = S, .micro_batches = 2, .micro_batch_size = 4, .schedule = schedule, .replicas = 2};
    const wide_training alone(options, nullptr);
    CHECK(alone.sums_within_backward == 0);
    for (const shard shares : {shard::none, shard::optimizer_state}) {
      CAPTURE(name_of(shares));
      options.shard = shares;
      threaded::job job(2 * S);
      std::vector<training_bits> found(static_cast<std::size_t>(job.ranks()));
      std::atomic<int> fewest{1000};
      job.run([&](process_group& here) {
        const wide_training training(options, &here);
        found[static_cast<std::size_t>(here.rank())] = training.bits;
        if (training.sums_within_backward < fewest) fewest = training.sums_within_backward;
      });
      for (const training_bits& of_rank : found) CHECK(of_rank == alone.bits);
      CHECK(fewest >= wide_training::min_sums);
    }
  }
}

TEST_CASE("the best values come back in a job, in which each process keeps its share of them") {
  const samples<float> rows(21, 12, 1), others(9, 12, 1);
  const dataset data = dataset{}.with("inputs", 12, rows.inputs).with("labels", 1, rows.labels),
                held_out = dataset{}.with("inputs", 12, others.inputs).with("labels", 1, others.labels);
  const fit_options how{.epochs = 12, .batch = 8, .patience = 3, .restore_best = true};
  struct result {
    std::uint64_t bits = 0, last = 0;
    int best_epoch = 0;
    std::size_t share = 0;
  };
  const auto run = [&](const plan_options& options, process_group* job) {
    const auto handle = models::tied.trainer(options, {.seed = 3, .job = job}, rule::adam, 0.2);
    basic_trainer& training = *handle;
    result found;
    found.best_epoch = fit(training, data, held_out, how, [&](const fit_progress& now) {
                         if (now.step == now.steps) found.last = state_of(training);
                       }).best_epoch;
    found.bits = state_of(training);
    std::vector<std::byte> values;
    training.keep_own_values(values);
    found.share = values.size();
    if (job != nullptr) {
      values.pop_back();
      CHECK_THROWS_WITH_AS(training.restore_own_values(values), doctest::Contains("give what keep_own_values returned"),
                           error);
    }
    return found;
  };
  for (const int replicas : {1, 2}) {
    plan_options options{.stages = 3, .micro_batches = 2, .micro_batch_size = 4, .replicas = replicas};
    const result alone = run(options, nullptr);
    options.shard = shard::optimizer_state;
    REQUIRE(alone.best_epoch > 0);
    REQUIRE(alone.best_epoch < how.epochs);
    CHECK(alone.bits != alone.last);
    threaded::job job(3 * replicas);
    std::vector<result> found(static_cast<std::size_t>(job.ranks()));
    job.run([&](process_group& here) { found[static_cast<std::size_t>(here.rank())] = run(options, &here); });
    std::size_t shares = 0;
    for (const result& of : found) {
      CHECK(of.bits == alone.bits);
      CHECK(of.best_epoch == alone.best_epoch);
      CHECK(of.share < alone.share);
      shares += of.share;
    }
    CHECK(shares == static_cast<std::size_t>(replicas) * alone.share);
  }
}

namespace {

/// A job of three processes: one replica, or three. The second process has at least this many actions in a step.
void fails_alike(const plan_options& options, int actions) {
  const test_model& data = models::tied;
  plan_options one = options;
  one.stages = 1, one.shard = shard::none;
  const auto twin = data.trainer(one);
  constexpr int rounds = 24;
  std::vector<std::uint64_t> expected;
  for (int i = 0; i < rounds; ++i) twin->step(data.take(i, 11)), expected.push_back(state_of(*twin));

  threaded::job job(3);
  std::array<std::vector<std::string>, 3> said;
  std::atomic<int> wrong{0}, throws_at{-1};
  job.run([&](process_group& here) {
    training_options how;
    how.job = &here;
    std::atomic<int> count{0};
    how.before = [&](const instruction&) {
      if (here.rank() == 1 && count++ == throws_at) throw std::runtime_error("thrown here");
    };
    const auto handle = data.trainer(options, how);
    basic_trainer& training = *handle;
    const auto all_are_here = [&] {
      std::byte nothing{};
      here.broadcast(&nothing, 1, 0, 0);
    };
    for (int i = 0; i < rounds; ++i) {
      all_are_here();
      if (here.rank() == 0) {
        if (i % 2 == 0) job.lose_after(i / 2);
        else throws_at = i % actions;
      }
      count = 0;
      all_are_here();
      try {
        training.step(data.take(i, 11));
        said[static_cast<std::size_t>(here.rank())].push_back("nothing");
      } catch (const error& cause) {
        said[static_cast<std::size_t>(here.rank())].push_back(cause.what());
      }
      all_are_here();
      if (here.rank() == 0) job.lose_after(-1), throws_at = -1;
      all_are_here();
      if (i > 0 && state_of(training) != expected[static_cast<std::size_t>(i) - 1]) ++wrong;
      training.step(data.take(i, 11));
      if (state_of(training) != expected[static_cast<std::size_t>(i)]) ++wrong;
    }
  });
  CHECK(wrong == 0);
  CHECK(said[0] == said[1]);
  CHECK(said[0] == said[2]);
  int lost = 0, thrown = 0;
  for (const std::string& text : said[0]) {
    CAPTURE(text);
    lost += text.find("a message was lost") != std::string::npos;
    thrown += text.find("rank 1") != std::string::npos && text.find("thrown here") != std::string::npos;
  }
  CHECK(lost == rounds / 2);
  CHECK(thrown == rounds / 2);
}

}  // namespace

TEST_CASE("a lost message or a throw fails the step alike on every rank, and the next step works") {
  fails_alike({.stages = 3, .micro_batches = 4, .micro_batch_size = 3}, 24);
}

TEST_CASE("the same of replicas that keep shares, also of their gather") {
  fails_alike({.micro_batch_size = 4, .replicas = 3, .shard = shard::optimizer_state}, 4);
  fails_alike({.micro_batch_size = 4, .replicas = 3, .shard = shard::gradients}, 3);
}
