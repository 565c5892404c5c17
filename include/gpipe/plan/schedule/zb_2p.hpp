#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe {

/// ZB-2p: Qi et al., "Zero Bubble Pipeline Parallelism", 2023 (arXiv 2401.10241), at twice 1F1B's memory. The authors
/// search it for given times; this is their table for equal ones, ZB-H2. Backward is in two parts. If all parts
/// have equal times and M >= 2 S - 1, a worker is never idle after its first cell: a step takes 3 M + S - 1 parts,
/// where S - 1 is the cost of the common commit. Every stage holds 2 S - 1 micro-batches; 1F1B's first one holds S.
///
///     tick     0   1   2   3   4   5   6   7   8   9   10  11  12  13  14  15  16  17  18  19
///     stage 0  F0  F1  F2  F3  F4  I0  W0  F5  I1  W1  I2  W2  I3  W3  I4  W4  I5  W5  .   .
///     stage 1  .   F0  F1  F2  I0  F3  I1  F4  I2  W0  F5  I3  W1  I4  W2  I5  W3  W4  W5  .
///     stage 2  .   .   F0  I0  F1  I1  F2  I2  F3  I3  F4  I4  W0  F5  I5  W1  W2  W3  W4  W5
///
/// With fewer than 2 S - 1 micro-batches, the ticks of the missing ones are idle.
struct zb_2p {
  static constexpr bool trains = true, splits = true;

  static constexpr const char* name() { return "ZB-2p"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return 3 * filled(stages, micro_batches) + stages - 1; }
  static constexpr int in_flight(int stages, int micro_batches, int) {
    return 2 * stages - 1 < micro_batches ? 2 * stages - 1 : micro_batches;
  }
  static constexpr cell at(int stages, int micro_batches, int worker, int tick) {
    if (tick < worker) return {};
    const cell found = nth(stages, filled(stages, micro_batches), worker, tick - worker);
    return found.micro_batch < micro_batches ? found : cell{};
  }

 private:
  static constexpr int filled(int stages, int micro_batches) {
    return micro_batches < 2 * stages - 1 ? 2 * stages - 1 : micro_batches;
  }
  // The worker's n-th cell, by rounds of a few cells. The parameter part of a micro-batch runs 2 w input parts later.
  static constexpr cell nth(int stages, int M, int worker, int n) {
    const int ahead = 2 * (stages - worker) - 1, late = 2 * worker, steady = M - 2 * stages + 1;
    constexpr action_kind F = action_kind::forward, Bx = action_kind::backward_input,
                          W = action_kind::backward_parameters;
    const auto takes = [&n](int rounds, int cells) {
      if (n < rounds * cells) return true;
      n -= rounds * cells;
      return false;
    };
    if (takes(ahead, 1)) return {F, worker, n};
    if (takes(late, 2)) return n % 2 == 0 ? cell{Bx, worker, n / 2} : cell{F, worker, ahead + n / 2};
    if (takes(steady, 3)) {
      const int m = n / 3, part = n % 3;
      return part == 0 ? cell{Bx, worker, late + m} : part == 1 ? cell{W, worker, m} : cell{F, worker, M - steady + m};
    }
    if (takes(ahead, 2)) return n % 2 == 0 ? cell{Bx, worker, M - ahead + n / 2} : cell{W, worker, steady + n / 2};
    if (takes(late, 1)) return {W, worker, M - late + n};
    return {};
  }
};

static_assert(scheduler<zb_2p>);

}  // namespace gpipe
