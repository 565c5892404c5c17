#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <cstdint>

namespace gpipe {

/// "1F1B" with a flush: Narayanan et al., PipeDream-Flush (arXiv 2006.09503), and Fan et al., DAPPLE (arXiv
/// 2007.01045). It takes as long as fill-drain, but stage s holds S - s micro-batches and not M: after S - s
/// forwards, backward and forward alternate. The neighbour uses each result in the next tick.
///
///     tick     0   1   2   3   4   5   6   7   8   9   10  11
///     stage 0  F0  .   F1  .   F2  B0  F3  B1  .   B2  .   B3
///     stage 1  .   F0  .   F1  B0  F2  B1  F3  B2  .   B3  .
///     stage 2  .   .   F0  B0  F1  B1  F2  B2  F3  B3  .   .
struct one_f_one_b {
  static constexpr bool trains = true, splits = false;

  static constexpr const char* name() { return "1F1B"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return 2 * (micro_batches + stages - 1); }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    return stages - stage < micro_batches ? stages - stage : micro_batches;
  }
  static constexpr int stash_slots(int stages, int micro_batches, int writer, int reader, int on_the_way = 0) {
    const int memory_slots = (2 * stages - 1 - writer - reader + on_the_way) / 2 + 1;
    return memory_slots < micro_batches ? memory_slots : micro_batches;
  }
  static constexpr int returned_slots(int, int micro_batches, int writer, int reader, int on_the_way = 0) {
    const int memory_slots = writer - reader + on_the_way > 2 ? (writer - reader + on_the_way) / 2 + 1 : 2;
    return memory_slots < micro_batches ? memory_slots : micro_batches;
  }

  // F(s, m) is in tick s + 2 m, and B(s, m) in tick 2 S - 1 - s + 2 m.
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    const int forward = tick - worker;
    if (forward >= 0 && forward % 2 == 0 && forward / 2 < micro_batches)
      return {action_kind::forward, worker, forward / 2};
    const int backward = tick - (2 * stages - 1 - worker);
    if (backward >= 0 && backward % 2 == 0 && backward / 2 < micro_batches)
      return {action_kind::backward, worker, backward / 2};
    return {};
  }

  /// The duration of a step with equal stages and free transfers.
  static constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t backward) {
    return (stages + micro_batches - 1) * (forward + backward);
  }
};

static_assert(scheduler<one_f_one_b>);

template <>
struct tick_runs_of<one_f_one_b> {
  static constexpr int count = 2;
  static constexpr tick_run at(const one_f_one_b&, int stages, int micro_batches, int worker, int index) {
    if (index == 0) return {action_kind::forward, worker, 0, micro_batches, worker, 2};
    return {action_kind::backward, worker, 0, micro_batches, 2 * stages - 1 - worker, 2};
  }
};

}  // namespace gpipe
