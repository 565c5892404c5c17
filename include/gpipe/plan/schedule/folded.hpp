#pragma once

#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/fill_drain.hpp>

namespace gpipe {

namespace detail {

/// A fold of `workers` onto fewer: contiguous blocks whose sizes differ by at most one, larger blocks first.
struct fold {
  int workers = 1, onto = 1;

  constexpr int width() const { return (workers + onto - 1) / onto; }  ///< size of the largest block
  constexpr int first(int block) const {
    const int larger = workers % onto;
    return block * (workers / onto) + (block < larger ? block : larger);
  }
  constexpr int size(int block) const { return first(block + 1) - first(block); }
  constexpr int block_of(int worker) const {
    const int least = workers / onto, in_larger = workers % onto * (least + 1);
    return worker < in_larger ? worker / (least + 1) : workers % onto + (worker - in_larger) / least;
  }
};

}  // namespace detail

/// A schedule on fewer workers. In one tick of the schedule, a worker runs the cells of its block one after the other,
/// so that tick t of blocks of at most F workers becomes the ticks t F ... t F + F - 1. Earlier ticks stay earlier, and
/// every stage runs the same cells in the same order: the table is valid if the schedule's is, and no bit changes.
///
///     fill-drain       tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15
///     of 3 stages      worker 0  0F1  .    0F0  1F1  .    1F0  .    .    .    .    .    1B0  0B0  1B1  0B1  .
///     onto 2 workers   worker 1  .    .    .    .    2F1  .    2F0  .    2B0  .    2B1  .    .    .    .    .
template <scheduler Schedule>
struct folded {
  Schedule unfolded;
  int onto;  ///< number of workers; 0, or at least the schedule's number: not folded
  bool trains;

  constexpr folded(const Schedule& whole, int workers) : unfolded(whole), onto(workers), trains(whole.trains) {}

  constexpr const char* name() const { return unfolded.name(); }
  constexpr bool admits(int S, int M) const { return unfolded.admits(S, M); }
  constexpr int workers(int S) const { return folds(S) ? onto : unfolded.workers(S); }
  constexpr int worker_of(int S, int stage) const {
    return folds(S) ? fold_of(S).block_of(unfolded.worker_of(S, stage)) : unfolded.worker_of(S, stage);
  }
  constexpr int ticks(int S, int M) const { return unfolded.ticks(S, M) * (folds(S) ? fold_of(S).width() : 1); }
  constexpr int in_flight(int S, int M, int stage) const { return unfolded.in_flight(S, M, stage); }
  constexpr cell at(int S, int M, int worker, int tick) const {
    if (!folds(S)) return unfolded.at(S, M, worker, tick);
    const detail::fold f = fold_of(S);
    const int turn = tick % f.width();
    return turn < f.size(worker) ? unfolded.at(S, M, f.first(worker) + turn, tick / f.width()) : cell{};
  }

 private:
  constexpr bool folds(int S) const { return onto > 0 && onto < unfolded.workers(S); }
  constexpr detail::fold fold_of(int S) const { return {unfolded.workers(S), onto}; }
};

static_assert(scheduler<folded<fill_drain>>);

}  // namespace gpipe
