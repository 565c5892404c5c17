#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <cstdint>

namespace gpipe {

namespace detail {

/// The order in which a worker with several stages, its chunks, runs them: micro-batches go through chunk after chunk
/// in groups, and backward in the opposite order of chunks. Stage s is on worker s % workers. A group has M / (M /
/// workers) micro-batches, at least one for each worker; with fewer micro-batches the ticks of the missing ones are
/// idle.
///
///     2 chunks, 2 workers, groups of 2, worker 0:    0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3    2B0 2B1 0B0 0B1 2B2 ...
struct chunk_order {
  int workers, chunks, micro_batches, group;

  constexpr chunk_order(int stages, int chunk_count, int M)
      : workers(stages / chunk_count),
        chunks(chunk_count),
        micro_batches(M),
        group(M < workers ? workers : M / (M / workers)) {}

  static constexpr bool admits(int stages, int chunks, int M) {
    if (chunks < 1 || stages < 1 || M < 1 || stages % chunks != 0) return false;
    const int workers = stages / chunks;
    return M < workers || M % (M / workers) == 0;
  }

  /// Forwards of a worker, including missing micro-batches.
  constexpr int count() const { return chunks * (micro_batches < workers ? workers : micro_batches); }
  /// The first forward of the last chunk.
  constexpr int last_chunk() const { return (chunks - 1) * group; }
  /// The micro-batch's place in the order of forwards of its stage, or of backwards.
  constexpr int forward_of(int stage, int m) const {
    return (m / group * chunks + stage / workers) * group + m % group;
  }
  constexpr int backward_of(int stage, int m) const {
    return (m / group * chunks + chunks - 1 - stage / workers) * group + m % group;
  }
  /// The k-th cell of a worker; idle if there is none, or if its micro-batch is missing.
  constexpr cell forward(int worker, int k) const {
    return made(action_kind::forward, k / group % chunks * workers + worker, k);
  }
  constexpr cell backward(action_kind kind, int worker, int k) const {
    return made(kind, (chunks - 1 - k / group % chunks) * workers + worker, k);
  }
  /// The maximum number of micro-batches between the ticks of forward and of the end of backward.
  template <class Begin, class End>
  constexpr int in_flight(int stage, const Begin& begin, const End& end) const {
    int memory_slots = 0, retired = 0;
    for (int m = 0; m < micro_batches; ++m) {
      while (end(backward_of(stage, retired)) < begin(forward_of(stage, m))) ++retired;
      if (m + 1 - retired > memory_slots) memory_slots = m + 1 - retired;
    }
    return memory_slots;
  }

 private:
  constexpr cell made(action_kind kind, int stage, int k) const {
    const int m = k / (group * chunks) * group + k % group;
    return k < 0 || k >= count() || m >= micro_batches ? cell{} : cell{kind, stage, m};
  }
};

}  // namespace detail

/// Interleaved 1F1B: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021 (arXiv
/// 2104.04473). A worker has `chunks` stages, stage s is on worker s % workers, and micro-batches go through a chunk in
/// groups of G = M / (M / K), with K workers: M is smaller than K, or a multiple of the number of groups. With equal
/// stages a worker is idle for (K - 1) (f + b) of a chunk's time: 1 / `chunks` of 1F1B's, with `chunks` times its
/// transfers.
///
/// Worker w begins with a warm-up of forwards, and holds the inputs of as many chunks. With V chunks per
/// worker the warm-up is
///
///     shortest  (V - 1) G + K - w              with free transfers, fewer would make it wait longer
///     longest   (V - 1) G + 2 (K - 1 - w) + 1  as in the paper: faster if transfers take time
///
/// After the shortest, a neighbour needs each result in the next tick, so a transfer delays everything after it. After
/// the longest it needs them two ticks later, and a transfer hides behind a chunk's work. With a latency of a tenth of
/// a chunk's forward, b = 2 f, K = 4, V = 2 and M = 16, the longest is 3.8 % faster, and worker 0 holds 11 chunks,
/// not 8. But a gradient leaves before the parameter part of backward, which hides transfers, too: then both may be
/// equal. So a plan with `cost_transfers` simulates both (see `choose_warmup`); any other takes the shortest.
///
///     tick      0    1    2    3    4    5    6    7    8    9
///     worker 0  0F0  0F1  2F0  .    2F1  2B0  .    2B1  0B0  0B1
///     worker 1  .    1F0  1F1  3F0  3B0  3F1  3B1  1B0  1B1  .
///
///     longest   0    1    2    3    4    5    6    7    8    9    10
///     worker 0  0F0  0F1  2F0  2F1  .    .    2B0  .    2B1  0B0  0B1
///     worker 1  .    1F0  1F1  3F0  3B0  3F1  3B1  .    1B0  1B1  .
struct interleaved {
  int chunks = 2;
  warmup_kind warmup = warmup_kind::automatic;

  static constexpr bool trains = true, splits = false;

  static constexpr const char* name() { return "interleaved"; }
  constexpr bool admits(int stages, int micro_batches) const {
    return detail::chunk_order::admits(stages, chunks, micro_batches);
  }
  constexpr int workers(int stages) const { return stages / chunks; }
  constexpr int worker_of(int stages, int stage) const { return stage % workers(stages); }
  constexpr int ticks(int stages, int micro_batches) const {
    const row first(*this, stages, micro_batches, 0);
    return first.backward_tick(first.order.backward_of(0, micro_batches - 1)) + 1;
  }
  constexpr int in_flight(int stages, int micro_batches, int stage) const {
    const row timing(*this, stages, micro_batches, worker_of(stages, stage));
    return timing.order.in_flight(
        stage, [&](int k) { return timing.forward_tick(k); }, [&](int k) { return timing.backward_tick(k); });
  }
  constexpr cell at(int stages, int micro_batches, int worker, int tick) const {
    const row timing(*this, stages, micro_batches, worker);
    const int forward = timing.forward_in(tick), backward = timing.backward_in(tick);
    if (forward < timing.order.count() && timing.forward_tick(forward) == tick)
      return timing.order.forward(worker, forward);
    return timing.backward_tick(backward) == tick ? timing.order.backward(action_kind::backward, worker, backward)
                                                  : cell{};
  }

  /// The duration of a step with equal stages and free transfers.
  constexpr std::int64_t makespan(int stages, int micro_batches, std::int64_t forward, std::int64_t backward) const {
    const detail::chunk_order order(stages, chunks, micro_batches);
    const int last = order.count() / chunks - micro_batches;  // of the missing micro-batches
    return (order.workers - 1 + order.count() - last) * (forward + backward);
  }

 private:
  /// Ticks from a worker's backward to the previous worker's, and from its forward to the next worker's.
  constexpr int hop() const { return warmup == warmup_kind::longest ? 2 : 1; }

  // Forward k is in tick w + k in the warm-up, then in every second tick. Backward k is in every second tick, too, and
  // in every tick after the last worker's last forward.
  struct row {
    detail::chunk_order order;
    int first_chunks, warm, forward_begin, backward_begin, spread, tail_begin;

    constexpr row(const interleaved& schedule, int stages, int micro_batches, int w)
        : order(stages, schedule.chunks, micro_batches), first_chunks(order.last_chunk()), worker_(w) {
      const int K = order.workers, to_last = K - 1 - w, hop = schedule.hop();
      warm = first_chunks + 1 + 2 * (hop - 1) * to_last;
      forward_begin = K - 1 - hop * to_last - first_chunks;  // as if all were in every second tick
      backward_begin = first_chunks + K + hop * to_last;
      spread = order.count() - 1 - first_chunks;
      tail_begin = first_chunks + K + (hop - 1) * (K - 1) + to_last + spread;
    }
    constexpr int forward_tick(int k) const { return k < warm ? worker_ + k : forward_begin + 2 * k; }
    constexpr int backward_tick(int k) const { return k <= spread ? backward_begin + 2 * k : tail_begin + k; }
    constexpr int forward_in(int tick) const {
      return tick - worker_ < warm ? tick - worker_ : (tick - forward_begin) / 2;
    }
    constexpr int backward_in(int tick) const {
      return tick > backward_begin + 2 * spread ? tick - tail_begin : (tick - backward_begin) / 2;
    }

   private:
    int worker_;
  };
};

static_assert(scheduler<interleaved>);

}  // namespace gpipe
