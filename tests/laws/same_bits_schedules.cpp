// optimize: yes
// sanitizers: thread

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/plan/schedule/any_schedule.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"

// Schedules, numbers of workers, memory limits, and plans of replicas change no bit.

using namespace laws;

namespace {

constexpr int worker_counts[] = {1, 2, 3};

/// A custom schedule: 1F1B with one more forward before the first backward.
struct eager {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "eager"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return one_f_one_b::ticks(stages + 1, micro_batches); }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    return one_f_one_b::in_flight(stages + 1, micro_batches, stage);
  }
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    return one_f_one_b::at(stages + 1, micro_batches, worker, tick);
  }
};

/// Two stages, and only the second has backward in two parts: it postpones all parameter parts.
///
///     F0  .  F1  B0 F2  B1  .  B2  .  .
///      . F0  I0  F1 I1  F2 I2  P0 P1 P2
struct parted_behind {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "parted behind"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages == 2 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int, int micro_batches) { return 3 * micro_batches + 1; }
  static constexpr int in_flight(int, int micro_batches, int stage) {
    return stage == 0 && micro_batches > 2 ? 2 : micro_batches;
  }
  static constexpr cell at(int, int M, int worker, int tick) {
    const int t = tick - worker, m = t / 2;
    if (worker == 0 && t % 2 != 0) return t >= 3 && m <= M ? cell{action_kind::backward, 0, m - 1} : cell{};
    if (worker == 1 && t >= 2 * M) return {action_kind::backward_parameters, 1, t - 2 * M};
    if (t < 0 || m >= M) return {};
    return {t % 2 == 0 ? action_kind::forward : action_kind::backward_input, worker, m};
  }
};

// change: a schedule
/// Every schedule that trains, some with other parameters, and custom ones.
const std::vector<schedule_choice> trained = [] {
  std::vector<schedule_choice> all{{schedule_kind::interleaved, 4},    interleaved{2, warmup_kind::longest},
                                   {schedule_kind::looped_bfs, 4},     {schedule_kind::interleaved_zb, 4},
                                   {custom_schedule_of<eager>, false}, {custom_schedule_of<parted_behind>, true}};
  for (const schedule_kind kind : schedule_kinds)
    if (kind != schedule_kind::forward_only) all.push_back(kind);
  return all;
}();

/// Recompute as needed, with memory for the fewest working sets, and for half of those that `never` keeps.
std::vector<std::int64_t> limits(const test_model& model, plan_options o) {
  o.recompute = recompute_mode::always;
  const std::int64_t min_bytes = largest_stage(model.net, o);
  o.recompute = recompute_mode::never;
  return {min_bytes, (min_bytes + largest_stage(model.net, o)) / 2};
}

void holds_for_schedules(const test_model& model) {
  for (const int M : {1, 3, 8}) {
    same_bits law{.model = model, .sizes = {4 * M - 1, 2, 1}, .micro_batches = M};
    for (const schedule_choice& schedule : trained)
      for (const int S : {1, 2, 3, 4, 8}) {
        if (!schedule.admits(S, M) || left_out(static_cast<int>(&schedule - trained.data()) + S + M)) continue;
        const plan_options plan = scheduled(schedule, {.stages = S, .micro_batches = M, .micro_batch_size = 4});
        plan_options other = plan;
        for (const recompute_mode mode : in_turn(kept_modes, S + M)) other.recompute = mode, law.holds({other});
        for (const int W : in_turn(worker_counts, S + M))
          if (W < schedule.workers(S)) other.recompute = kept_modes[W % 3], other.workers = W, law.holds({other});
        other = plan, other.recompute = recompute_mode::as_needed;
        for (const std::int64_t limit : limits(model, plan))
          if (!sanitized || M == 3) other.memory_limit = limit, law.holds({other});
      }
  }
}

/// At a fixed number of replicas: any S, schedule, number of workers, recompute.
void holds_for_replicas(const test_model& model, rule optimizer = rule::adam) {
  for (const int R : {2, 3}) {
    same_bits law{.model = model,
                  .sizes = {13, R, 4 * R + 1},
                  .micro_batches = 3,
                  .replicas = R,
                  .optimizer = optimizer,
                  .digest_calls = 3};
    for (const schedule_choice& schedule : trained)
      for (const int S : {1, 2, 4, model.layers()}) {
        if (!schedule.admits(S, 3) || left_out(static_cast<int>(&schedule - trained.data()) + S + R)) continue;
        plan_options plan = scheduled(schedule, {.stages = S, .recompute = kept_modes[S % 3]});
        law.holds({plan});
        plan.workers = 1, plan.recompute = recompute_mode::always;
        if (S == 4) law.holds({plan, {}, true, 50});
        if (schedule.kind == schedule_kind::fill_drain)
          law.holds({{.stages = S, .recompute = recompute_mode::never, .group_gradients = 2}, {}, false});
      }
  }
}

}  // namespace

TEST_CASE("every schedule, also a custom one: the same bits, at every recompute mode") {
  holds_for_schedules(models::tied);
  if (!thread_sanitized) holds_for_schedules(models::skip_double);
  if (sanitized) return;
  for (const test_model* model : {&models::attended, &models::headed, &models::sliced, &models::tied_bf16})
    holds_for_schedules(*model);
}

TEST_CASE("stages of one worker with an undivided backward: nothing is poisoned that they read") {
  same_bits law{.model = models::residual, .sizes = {13, 4}, .micro_batches = 6};
  for (const int S : {2, 3})
    law.holds(
        {{.stages = S, .recompute = recompute_mode::always, .schedule = schedule_kind::interleaved, .chunks = S}});
}

TEST_CASE("replicas: the same bits for every S, schedule, number of workers, recompute, and in each replica") {
  holds_for_replicas(models::tied);
  holds_for_replicas(models::residual, rule::sgd);
  if (!thread_sanitized) holds_for_replicas(models::skip_double);
  if (!thread_sanitized) holds_for_replicas(models::image);
  if (!sanitized) holds_for_replicas(models::tied_bf16);
}
