#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <cstdint>

namespace gpipe {

/// Evaluation: without backward, an input is kept only until its forward ends.
///
///     tick     0   1   2   3
///     stage 0  F0  F1  .   .
///     stage 1  .   F0  F1  .
///     stage 2  .   .   F0  F1
struct forward_only {
  static constexpr bool trains = false, splits = false;

  static constexpr const char* name() { return "forward-only"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return micro_batches + stages - 1; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr int stash_slots(int, int micro_batches, int writer, int reader, int on_the_way = 0) {
    const int memory_slots = reader - writer + 1 + on_the_way;
    return memory_slots < micro_batches ? memory_slots : micro_batches;
  }

  static constexpr cell at(int, int micro_batches, int worker, int tick) {
    const int forward = tick - worker;
    if (forward >= 0 && forward < micro_batches) return {action_kind::forward, worker, forward};
    return {};
  }

  /// The duration of a pass with equal stages and free transfers.
  static constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t) {
    return (stages + micro_batches - 1) * forward;
  }
};

static_assert(scheduler<forward_only>);

template <>
struct tick_runs_of<forward_only> {
  static constexpr int count = 1;
  static constexpr tick_run at(const forward_only&, int, int micro_batches, int worker, int) {
    return {action_kind::forward, worker, 0, micro_batches, worker, 1};
  }
};

}  // namespace gpipe
