#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <cstdint>

namespace gpipe {

/// Huang et al., "GPipe", 2019, figure 2(c): all forwards, then all backwards. Forward runs micro-batches in
/// descending order, so that gradients retire 0, 1, 2, ... and backward begins with the micro-batch of the last
/// forward.
///
///     tick     0   1   2   3   4   5   6   7
///     stage 0  F1  F0  .   .   .   .   B0  B1
///     stage 1  .   F1  F0  .   .   B0  B1  .
///     stage 2  .   .   F1  F0  B0  B1  .   .
struct fill_drain {
  static constexpr bool trains = true, splits = false;

  static constexpr const char* name() { return "fill-drain"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return 2 * (micro_batches + stages - 1); }
  static constexpr int in_flight(int, int micro_batches, int) { return micro_batches; }
  static constexpr int stash_slots(int, int micro_batches, int, int, int = 0) { return micro_batches; }
  static constexpr int returned_slots(int, int micro_batches, int writer, int reader, int on_the_way = 0,
                                      int group_gradients = 1) {
    const int memory_slots = writer - reader + on_the_way + group_gradients;
    return memory_slots < micro_batches ? memory_slots : micro_batches;
  }

  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    const int forward = micro_batches - 1 - (tick - worker);
    if (forward >= 0 && forward < micro_batches) return {action_kind::forward, worker, forward};
    const int backward = tick - (micro_batches + stages - 1) - (stages - 1 - worker);
    if (backward >= 0 && backward < micro_batches) return {action_kind::backward, worker, backward};
    return {};
  }

  /// The duration of a step with equal stages and free transfers.
  static constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t backward) {
    return (stages + micro_batches - 1) * (forward + backward);
  }
};

static_assert(scheduler<fill_drain>);

template <>
struct tick_runs_of<fill_drain> {
  static constexpr int count = 2;
  static constexpr tick_run at(const fill_drain&, int stages, int micro_batches, int worker, int index) {
    if (index == 0) return {action_kind::forward, worker, 0, micro_batches, worker + micro_batches - 1, -1};
    return {action_kind::backward, worker, 0, micro_batches, micro_batches + 2 * (stages - 1) - worker, 1};
  }
};

}  // namespace gpipe
