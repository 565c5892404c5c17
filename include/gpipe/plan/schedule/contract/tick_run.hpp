#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe {

/// Cells of one stage and kind: micro-batch `first` runs in `tick`, and each next one `every` ticks later (if negative,
/// earlier).
struct tick_run {
  action_kind kind = action_kind::idle;
  int stage = -1;
  int first = 0, count = 0;  ///< micro-batches
  int tick = 0, every = 1;

  constexpr int last() const { return first + count - 1; }
  constexpr int tick_of(int micro_batch) const { return tick + (micro_batch - first) * every; }
  constexpr cell at(int micro_batch) const { return {kind, stage, micro_batch}; }
};

/// A schedule's rows as tick runs, for schedules whose rows consist of few runs for any M. Specialize it with `count`,
/// the number of runs of a row, and `at(schedule, S, M, worker, index)`. Runs of the same stage and kind are in
/// ascending order of micro-batches; a run may be empty. Together they are all cells of the schedule's `at`. A compiler
/// then checks a table of any size in a short time.
///
/// (It is a type and not a member, because a schedule that is derived from another one would inherit the member.)
template <class Schedule>
struct tick_runs_of {
  static constexpr int count = 0;
};

}  // namespace gpipe
