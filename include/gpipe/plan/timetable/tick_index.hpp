#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe::detail {

/// The ticks of a stage and micro-batch: of forward and of backward (the input part, if it is split), of the worker's
/// cell before each of these, and of the end of its parameter gradients. -1: never.
struct cell_ticks {
  int forward = -1, before_forward = -1;
  int backward = -1, before_backward = -1;
  int retired = -1;
};

/// The inverse of a table: from a stage and micro-batch to its ticks. A worker's row is read at its first use.
///
/// The parameter parts of each `group_gradients` consecutive micro-batches, from 0 on, come together after the last
/// one's cell.
template <scheduler Schedule>
class tick_index {
 public:
  constexpr tick_index(const Schedule& schedule, int stages, int micro_batches, int group_gradients = 1)
      : schedule_(schedule),
        stages_(stages),
        micro_batches_(micro_batches),
        group_gradients_(group_gradients),
        ticks_(stages) {}
  constexpr ~tick_index() {
    for (int s = 0; s < stages_; ++s) delete[] ticks_[s];
  }
  tick_index(const tick_index&) = delete;
  tick_index& operator=(const tick_index&) = delete;

  constexpr const Schedule& schedule() const { return schedule_; }
  constexpr int stages() const { return stages_; }
  constexpr int micro_batches() const { return micro_batches_; }
  constexpr int group_gradients() const { return group_gradients_; }
  /// The first and the last micro-batch whose parameter parts run together with the part of `m`.
  constexpr int first_with(int m) const { return m - m % group_gradients_; }
  constexpr int last_with(int m) const {
    const int last = first_with(m) + group_gradients_ - 1;
    return last < micro_batches_ ? last : micro_batches_ - 1;
  }
  constexpr int worker_of(int stage) const { return schedule_.worker_of(stages_, stage); }
  /// Whether the cell's stage and micro-batch exist; a wrong table may have others.
  constexpr bool contains(const cell& c) const {
    return c.stage >= 0 && c.stage < stages_ && c.micro_batch >= 0 && c.micro_batch < micro_batches_;
  }

  /// The ticks of a stage, one element per micro-batch.
  constexpr const cell_ticks* of(int stage) {
    if (!ticks_[stage]) read(worker_of(stage));
    return ticks_[stage];
  }

  /// Calls `use(tick, cell)` for each cell of a worker that is not idle, in order.
  template <class Use>
  GPIPE_COLD constexpr void walk(int worker, Use&& use) const {
    const int ticks = schedule_.ticks(stages_, micro_batches_);
    for (int t = 0; t < ticks; ++t)
      if (const cell c = schedule_.at(stages_, micro_batches_, worker, t); c.kind != action_kind::idle) use(t, c);
  }

 private:
  GPIPE_COLD constexpr void read(int worker) {
    for (int s = 0; s < stages_; ++s)
      if (worker_of(s) == worker) ticks_[s] = new cell_ticks[static_cast<unsigned>(micro_batches_)]{};
    int before = -1;
    walk(worker, [&](int t, const cell& c) {
      if (contains(c) && ticks_[c.stage]) {
        cell_ticks& found = ticks_[c.stage][c.micro_batch];
        if (c.kind == action_kind::forward && found.forward < 0) {
          found.forward = t;
          found.before_forward = before;
        } else if ((c.kind == action_kind::backward || c.kind == action_kind::backward_input) && found.backward < 0) {
          found.backward = t;
          found.before_backward = before;
        }
        if (c.kind == action_kind::backward || c.kind == action_kind::backward_parameters) found.retired = t;
      }
      before = t;
    });
    for (int s = 0; s < stages_ && group_gradients_ > 1; ++s)
      for (int m = 0; m < micro_batches_ && worker_of(s) == worker; ++m)
        ticks_[s][m].retired = ticks_[s][last_with(m)].retired;
  }

  const Schedule schedule_;
  const int stages_, micro_batches_, group_gradients_;
  const zeroed_array<cell_ticks*> ticks_;
};

}  // namespace gpipe::detail
