#pragma once

#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/fill_drain.hpp>

namespace gpipe {

namespace detail {

/// A fold of K workers onto W: contiguous blocks whose sizes differ by at most one, larger blocks first.
struct fold {
  int from = 1, onto = 1;

  constexpr int width() const { return (from + onto - 1) / onto; }  ///< size of the largest block
  constexpr int first(int block) const {
    const int larger = from % onto;
    return block * (from / onto) + (block < larger ? block : larger);
  }
  constexpr int size(int block) const { return first(block + 1) - first(block); }
  constexpr int block_of(int worker) const {
    const int least = from / onto, in_larger = from % onto * (least + 1);
    return worker < in_larger ? worker / (least + 1) : from % onto + (worker - in_larger) / least;
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
  Schedule of;
  int onto;  ///< number of workers; 0, or at least those of the schedule: not folded
  bool trains;

  constexpr folded(const Schedule& whole, int workers) : of(whole), onto(workers), trains(whole.trains) {}

  constexpr const char* name() const { return of.name(); }
  constexpr bool admits(int S, int M) const { return of.admits(S, M); }
  constexpr int workers(int S) const { return folds(S) ? onto : of.workers(S); }
  constexpr int worker_of(int S, int stage) const {
    return folds(S) ? how(S).block_of(of.worker_of(S, stage)) : of.worker_of(S, stage);
  }
  constexpr int ticks(int S, int M) const { return of.ticks(S, M) * (folds(S) ? how(S).width() : 1); }
  constexpr int in_flight(int S, int M, int stage) const { return of.in_flight(S, M, stage); }
  constexpr cell at(int S, int M, int worker, int tick) const {
    if (!folds(S)) return of.at(S, M, worker, tick);
    const detail::fold f = how(S);
    const int turn = tick % f.width();
    return turn < f.size(worker) ? of.at(S, M, f.first(worker) + turn, tick / f.width()) : cell{};
  }

 private:
  constexpr bool folds(int S) const { return onto > 0 && onto < of.workers(S); }
  constexpr detail::fold how(int S) const { return {of.workers(S), onto}; }
};

static_assert(scheduler<folded<fill_drain>>);

}  // namespace gpipe
