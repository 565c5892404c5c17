#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <cstdint>

namespace gpipe {

/// Looped breadth first: Lamy-Poirier, "Breadth-First Pipeline Parallelism", 2022 (arXiv 2211.05953). A worker has
/// `chunks` stages, stage s is on worker s % workers, and all micro-batches go through a chunk before the next one
/// begins: fill-drain in loops. With K workers, M >= K and equal stages, a worker is idle for (K - 1) (f + b) of a
/// chunk's time, 1 / `chunks` of fill-drain's, and a result that goes to the first worker waits M - K ticks, so slow
/// transfers hide. Each stage holds all M micro-batches, as in fill-drain. Any M is admitted: with M < K, chunks begin
/// K ticks apart. Forward runs micro-batches in descending order, so that gradients retire 0, 1, 2, ... (PyTorch
/// numbers them the other way round.)
///
///     tick      0    1    2    3    4    5    6    7    8    9
///     worker 0  0F1  0F0  2F1  2F0  .    .    2B0  2B1  0B0  0B1
///     worker 1  .    1F1  1F0  3F1  3F0  3B0  3B1  1B0  1B1  .
struct looped_bfs {
  int chunks = 2;

  static constexpr bool trains = true, splits = false;

  static constexpr const char* name() { return "looped-BFS"; }
  constexpr bool admits(int stages, int micro_batches) const {
    return chunks >= 1 && stages >= 1 && stages % chunks == 0 && micro_batches >= 1;
  }
  constexpr int workers(int stages) const { return stages / chunks; }
  constexpr int worker_of(int stages, int stage) const { return stage % workers(stages); }
  constexpr int ticks(int stages, int micro_batches) const { return 2 * half(stages, micro_batches); }
  static constexpr int in_flight(int, int micro_batches, int) { return micro_batches; }

  // Backward is the mirror image of forward.
  constexpr cell at(int stages, int micro_batches, int worker, int tick) const {
    const int K = workers(stages), end = half(stages, micro_batches);
    const bool back = tick >= end;
    const int since = (back ? 2 * end - 1 - tick : tick) - worker, loop = loop_of(stages, micro_batches);
    if (since < 0 || since >= chunks * loop || since % loop >= micro_batches) return {};
    return {back ? action_kind::backward : action_kind::forward, since / loop * K + worker,
            micro_batches - 1 - since % loop};
  }

  /// The duration of a step with equal stages and free transfers.
  constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t backward) const {
    return half(stages, micro_batches) * (forward + backward);
  }

 private:
  /// Ticks from a chunk's begin to the next one's.
  constexpr int loop_of(int stages, int micro_batches) const {
    return micro_batches < workers(stages) ? workers(stages) : micro_batches;
  }
  /// Ticks of all forwards.
  constexpr int half(int stages, int micro_batches) const {
    return workers(stages) - 1 + (chunks - 1) * loop_of(stages, micro_batches) + micro_batches;
  }
};

static_assert(scheduler<looped_bfs>);

}  // namespace gpipe
