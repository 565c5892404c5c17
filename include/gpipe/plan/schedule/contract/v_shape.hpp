#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe::detail {

/// Worker w of K has stages w and S - 1 - w, so that micro-batches go down and up a V, and the loss is on worker 0.
/// Backward is in two parts.
///
///     worker 0   stage 0      stage 3        S = 4, K = 2
///     worker 1      stage 1  stage 2
struct v_workers {
  static constexpr bool trains = true, splits = true;

  static constexpr bool admits(int stages, int micro_batches) {
    return stages >= 2 && stages % 2 == 0 && micro_batches >= 1;
  }
  static constexpr int workers(int stages) { return stages / 2; }
  static constexpr int worker_of(int stages, int stage) { return stage < stages / 2 ? stage : stages - 1 - stage; }
};

/// The common part of schedules on such workers whose step takes 6 M + K - 1 ticks; worker w begins at tick w.
///
/// With fewer than `Schedule::min_micro_batches(stages)`, the ticks of the missing ones are idle.
/// `Schedule::nth(stages, M, worker, n)` is the worker's n-th cell.
template <class Schedule>
struct v_shape : v_workers {
  static constexpr int ticks(int stages, int micro_batches) {
    return 6 * filled(stages, micro_batches) + workers(stages) - 1;
  }
  static constexpr int in_flight(int stages, int micro_batches, int stage) {
    return stages - stage < micro_batches ? stages - stage : micro_batches;
  }
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    if (tick < worker) return {};
    const cell found = Schedule::nth(stages, filled(stages, micro_batches), worker, tick - worker);
    return found.micro_batch < micro_batches ? found : cell{};
  }

 private:
  static constexpr int filled(int stages, int micro_batches) {
    const int minimum = Schedule::min_micro_batches(stages);
    return micro_batches < minimum ? minimum : micro_batches;
  }
};

}  // namespace gpipe::detail
