// optimize: yes

#include <gpipe/runtime/replicas/leaving_gradients.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/nets.hpp"
#include "support/threaded_job.hpp"

#include <gpipe/job.hpp>

using namespace laws;

namespace {

/// Each of the inner layers fills a bucket; the first two are tied, so that the first waits for the second.
struct net : model<input<float, 512>, tied<"w", linear<512>>, gelu, tied<"w", linear<512>>, gelu, linear<512>, gelu,
                   linear<512>, gelu, linear<512>, gelu, linear<512>, gelu, linear<512>, gelu, linear<8>,
                   softmax_cross_entropy> {};

using bits = std::vector<std::uint64_t>;

/// Steps between which one fails: when gradients have left, or before the first has.
bits train(const plan_options& options, process_group* job, std::int64_t* memory = nullptr) {
  const samples<float> data(16, 512, 1);
  training_options how;
  how.seed = 3;
  how.max_grad_norm = 0.1;
  how.arena_fill = std::byte{0xff};
  how.job = job;
  std::atomic<action_kind> throws_at{action_kind::idle};
  how.before = [&](const instruction& i) {
    if (i.kind == throws_at && (job == nullptr || job->rank() == 1)) throw std::runtime_error("thrown here");
  };
  trainer<net, adam> training(options, adam{.learning_rate = 0.05}, how);
  bits found;
  const action_kind fails[] = {action_kind::reduce, action_kind::forward, action_kind::update};
  for (int step = 0; step < 3; ++step) {
    training.step(data.take(step, step == 1 ? options.replicas : 12));
    found.push_back(gradients_of(training));
    found.push_back(state_of(training));
    throws_at = fails[step];
    CHECK_THROWS_AS(training.step(data.take(0, 12)), error);
    throws_at = action_kind::idle;
    CHECK(state_of(training) == found.back());
  }
  if (memory != nullptr) *memory = training.plan().memory(0).of(memory_kind::gradients);
  return found;
}

constexpr std::int64_t wide = sizeof(float) * 512 * 513, head = sizeof(float) * 8 * 512 + 64;

}  // namespace

TEST_CASE("gradients that leave their stage, in threads and in a job, change no bit of a training") {
  struct {
    int replicas, stages, micro_batches;
    schedule_kind schedule;
  } const cases[] = {{2, 1, 1, schedule_kind::fill_drain},
                     {2, 1, 3, schedule_kind::fill_drain},
                     {3, 1, 1, schedule_kind::zb_h1},
                     {2, 2, 2, schedule_kind::fill_drain},
                     {2, 2, 1, schedule_kind::one_f_one_b}};
  std::uint32_t random = 0;
  for (const auto& c : cases) {
    CAPTURE(c.replicas);
    CAPTURE(c.stages);
    CAPTURE(c.micro_batches);
    plan_options options{.stages = c.stages,
                         .micro_batches = c.micro_batches,
                         .micro_batch_size = 6,
                         .recompute = recompute_mode::never,
                         .schedule = c.schedule,
                         .replicas = c.replicas,
                         .group_gradients = c.schedule == schedule_kind::fill_drain ? c.micro_batches : 0};
    const bits expected = train(options, nullptr);
    options.shard = shard::gradients;
    std::int64_t here = 0;
    CHECK(train(options, nullptr, &here) == expected);
    std::vector<bits> found(static_cast<std::size_t>(c.replicas * c.stages));
    std::vector<std::int64_t> memory(found.size());
    threaded::job job(c.replicas * c.stages, ++random);
    job.run([&](process_group& at) {
      const auto rank = static_cast<std::size_t>(at.rank());
      found[rank] = train(options, &at, &memory[rank]);
    });
    for (const bits& of_rank : found) CHECK(of_rank == expected);
    if (c.stages > 1) continue;
    // A share, the bucket that waits, and one window or two.
    const std::int64_t share = c.replicas == 2 ? 3 * wide + head : 2 * wide + head;
    CHECK(here == share + wide + (wide + head));
    for (const std::int64_t bytes : memory) CHECK(bytes == share + wide + 2 * (wide + head));
  }
}

TEST_CASE("a throw before any instruction of any replica, while gradients leave, changes nothing") {
  const samples<float> data(16, 512, 1);
  for (const int stages : {1, 3}) {
    const plan_options options{.stages = stages,
                               .micro_batch_size = 6,
                               .schedule = schedule_kind::zb_h1,
                               .replicas = 2,
                               .shard = shard::gradients};
    std::atomic<int> calls{0}, throws_at{-1};
    training_options how;
    how.before = [&](const instruction&) {
      if (calls++ == throws_at) throw std::runtime_error("thrown here");
    };
    trainer<net, adam> disturbed(options, adam{}, how), twin({.micro_batch_size = 6, .replicas = 2});
    disturbed.step(data.take(0, 12)), twin.step(data.take(0, 12));
    const std::uint64_t before = state_of(twin);
    int failed = 0;
    for (bool fails = true; fails; ++failed) {
      calls = 0, throws_at = failed;
      try {
        disturbed.step(data.take(3, 11));
        fails = false;
      } catch (const error& cause) {
        CHECK(cause.wrong() == "thrown here");
        CHECK(state_of(disturbed) == before);
      }
    }
    CHECK(failed > 2 * 5 * stages);
    twin.step(data.take(3, 11));
    CHECK(state_of(disturbed) == state_of(twin));
  }
}
