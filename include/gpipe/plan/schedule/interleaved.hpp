#pragma once

#include <gpipe/plan/schedule/scheduler.hpp>

#include <cstdint>

namespace gpipe {

/// Interleaved 1F1B: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021 (arXiv
/// 2104.04473). A worker has `chunks` stages, stage s is on worker s % workers, and micro-batches go through a chunk in
/// groups of `workers` micro-batches. Workers are idle for 1 / `chunks` of 1F1B's time, with `chunks` times its
/// transfers. Worker w begins with chunks * workers - w forwards: fewer would make it wait longer.
///
///     tick      0    1    2    3    4    5    6    7    8    9
///     worker 0  0F0  0F1  2F0  .    2F1  2B0  .    2B1  0B0  0B1
///     worker 1  .    1F0  1F1  3F0  3B0  3F1  3B1  1B0  1B1  .
struct interleaved {
  int chunks = 2;

  static constexpr bool trains = true, splits = false;

  static constexpr const char* name() { return "interleaved"; }
  constexpr bool admits(int stages, int micro_batches) const {
    return chunks >= 1 && stages >= 1 && micro_batches >= 1 && stages % chunks == 0 &&
           micro_batches % workers(stages) == 0;
  }
  constexpr int workers(int stages) const { return stages / chunks; }
  constexpr int worker_of(int stages, int stage) const { return stage % workers(stages); }
  constexpr int ticks(int stages, int micro_batches) const {
    return 2 * (micro_batches * chunks + workers(stages) - 1);
  }
  constexpr int in_flight(int stages, int micro_batches, int stage) const {
    const int K = workers(stages), chunk = stage / K, worker = stage % K;
    const int ahead = chunks - 1 - 2 * chunk;  // groups that run forward before the first backward of this chunk
    const int slots = chunk == chunks - 1 ? K - worker : ahead >= 2 ? 2 * K : ahead == 1 ? 2 * K - worker : K;
    return slots < micro_batches ? slots : micro_batches;
  }

  // With K workers, and counting a worker's forwards and backwards from 0, forward k is in tick w + k up to
  // k = (chunks - 1) K, then in every second tick. Backward k is in tick (chunks + 1) K - 1 - w + 2 k, and in every
  // tick after the last worker's last forward.
  constexpr cell at(int stages, int micro_batches, int worker, int tick) const {
    const int K = workers(stages), count = micro_batches * chunks, dense = (chunks - 1) * K;
    const int forward = tick - worker;
    if (forward >= 0 && (forward <= dense || (forward - dense) % 2 == 0)) {
      const int k = forward <= dense ? forward : (forward + dense) / 2;
      if (k < count) return {action_kind::forward, chunk_of(k, K) * K + worker, micro_batch_of(k, K)};
    }
    const int backward = tick - ((chunks + 1) * K - 1 - worker), spread = count - 1 - dense;
    if (backward >= 0 && (backward > 2 * spread || backward % 2 == 0)) {
      const int k = backward > 2 * spread ? backward - spread : backward / 2;
      if (k < count) return {action_kind::backward, (chunks - 1 - chunk_of(k, K)) * K + worker, micro_batch_of(k, K)};
    }
    return {};
  }

  /// The duration of a step with equal stages and free transfers.
  constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t backward) const {
    return (workers(stages) - 1 + std::int64_t{chunks} * micro_batches) * (forward + backward);
  }

 private:
  constexpr int chunk_of(int k, int K) const { return k % (K * chunks) / K; }
  constexpr int micro_batch_of(int k, int K) const { return k / (K * chunks) * K + k % K; }
};

static_assert(scheduler<interleaved>);

}  // namespace gpipe
