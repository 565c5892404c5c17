#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe {

/// ZB-H1: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (arXiv 2401.10241). 1F1B with backward in two parts:
/// worker w runs the parameter part w micro-batches later, and so fills the bubble at the end. Every stage holds S
/// micro-batches, like 1F1B's first stage. With M >= S and a stage's times F, I and W >= 0, W <= F, a worker is idle
/// for (S - 1) (F + I - W).
///
///     tick     0   1   2   3   4   5   6   7   8   9   10  11  12  13
///     stage 0  F0  .   F1  .   F2  I0  W0  F3  I1  W1  I2  W2  I3  W3
///     stage 1  .   F0  .   F1  I0  F2  I1  W0  F3  I2  W1  I3  W2  W3
///     stage 2  .   .   F0  I0  F1  I1  F2  I2  W0  F3  I3  W1  W2  W3
struct zb_h1 {
  static constexpr bool trains = true, splits = true;

  static constexpr const char* name() { return "ZB-H1"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) {
    return 2 * (stages + micro_batches) - 1 + beyond(stages, micro_batches);
  }
  static constexpr int in_flight(int stages, int micro_batches, int) {
    return stages < micro_batches ? stages : micro_batches;
  }

  // Forward m is in tick w + 2 m, from m = S on in every third tick. Backward's input part m is in tick
  // 2 S - 1 - w + 2 m, in every third tick while w < m <= w + M - S: there the parameter part of m - w follows it. The
  // remaining parameter parts come last.
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    const int forward = tick - worker, dense = 2 * (stages - 1);
    if (forward >= 0 && (forward <= dense ? forward % 2 : (forward - dense) % 3) == 0) {
      const int m = forward <= dense ? forward / 2 : stages - 1 + (forward - dense) / 3;
      if (m < micro_batches) return {action_kind::forward, worker, m};
    }
    if (const int m = input_at(stages, micro_batches, worker, tick); m >= 0)
      return {action_kind::backward_input, worker, m};
    const int late = worker < micro_batches ? worker : micro_batches - 1;
    const int after = tick - 1 - last_input(stages, micro_batches, worker);
    const int m = (after > 0 ? micro_batches - 1 + after : input_at(stages, micro_batches, worker, tick - 1)) - late;
    if (m >= 0 && m < micro_batches) return {action_kind::backward_parameters, worker, m};
    return {};
  }

 private:
  static constexpr int beyond(int stages, int micro_batches) {
    return micro_batches > stages ? micro_batches - stages : 0;
  }
  static constexpr int last_input(int stages, int micro_batches, int worker) {
    const int m = micro_batches - 1, thirds = beyond(stages, micro_batches);
    const int wider = m - worker < 0 ? 0 : m - worker < thirds ? m - worker : thirds;
    return 2 * stages - 1 - worker + 2 * m + wider;
  }
  // The micro-batch whose input part the worker runs in this tick; -1: none.
  static constexpr int input_at(int stages, int micro_batches, int worker, int tick) {
    const int since = tick - (2 * stages - 1 - worker), thirds = beyond(stages, micro_batches);
    int m = -1;
    if (since < 0) return -1;
    if (since <= 2 * worker) m = since % 2 == 0 ? since / 2 : -1;
    else if (since <= 2 * worker + 3 * thirds)
      m = (since - 2 * worker) % 3 == 0 ? worker + (since - 2 * worker) / 3 : -1;
    else m = (since - thirds) % 2 == 0 ? (since - thirds) / 2 : -1;
    return m < micro_batches ? m : -1;
  }
};

static_assert(scheduler<zb_h1>);

}  // namespace gpipe
