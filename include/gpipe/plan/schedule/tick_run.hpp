#pragma once

#include <gpipe/plan/schedule/action.hpp>

namespace gpipe {

/// Cells of one stage and kind: micro-batch `first` runs in `tick`, and each of the next ones `every` ticks later
/// (negative: earlier) than the one before.
struct stretch {
  act kind = act::idle;
  int stage = -1;
  int first = 0, count = 0;  ///< micro-batches
  int tick = 0, every = 1;

  constexpr int last() const { return first + count - 1; }
  constexpr int tick_of(int micro_batch) const { return tick + (micro_batch - first) * every; }
  constexpr cell at(int micro_batch) const { return {kind, stage, micro_batch}; }
};

/// A schedule's rows as stretches, for schedules whose rows are few of them whatever M is: specialise it with `count`,
/// how many a row has, and `at(schedule, S, M, worker, index)`. Those of a stage and kind come in ascending order of
/// micro-batches; one may be empty. Together they are all the cells that the schedule's own `at` tells, and let a
/// compiler check the table in no time, whatever its size.
///
/// (A type of its own and no member, which a schedule made of another one would inherit with its `at` replaced.)
template <class Schedule>
struct stretches_of {
  static constexpr int count = 0;
};

}  // namespace gpipe
