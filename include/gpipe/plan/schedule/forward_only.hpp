#pragma once

#include <gpipe/plan/schedule/scheduler.hpp>
#include <gpipe/plan/schedule/tick_run.hpp>

#include <cstdint>

namespace gpipe {

/// Evaluation: nothing comes back, so no input is kept longer than its forward takes.
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
  static constexpr int stash_places(int, int micro_batches, int from, int to, int on_the_way = 0) {
    const int most = to - from + 1 + on_the_way;
    return most < micro_batches ? most : micro_batches;
  }

  static constexpr cell at(int, int micro_batches, int worker, int tick) {
    const int forward = tick - worker;
    if (forward >= 0 && forward < micro_batches) return {act::forward, worker, forward};
    return {};
  }

  /// Length of a pass in which each stage takes as long, and transfers no time.
  static constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t) {
    return (stages + micro_batches - 1) * forward;
  }
};

static_assert(scheduler<forward_only>);

template <>
struct stretches_of<forward_only> {
  static constexpr int count = 1;
  static constexpr stretch at(const forward_only&, int, int micro_batches, int worker, int) {
    return {act::forward, worker, 0, micro_batches, worker, 1};
  }
};

}  // namespace gpipe
