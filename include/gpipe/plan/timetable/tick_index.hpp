#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/action.hpp>
#include <gpipe/plan/schedule/scheduler.hpp>

namespace gpipe::detail {

/// The ticks in which a stage runs a micro-batch forward and backward (its input part, if it is split), in which its
/// worker ran the cell before either of these, and in which its parameter gradients are done. -1: never.
struct cell_ticks {
  int forward = -1, before_forward = -1;
  int backward = -1, before_backward = -1;
  int retired = -1;
};

/// A table read from the other side: when does a cell run? A worker's row is walked when first asked for.
///
/// `coalesce`: of as many micro-batches, from 0 on, the parameter parts come together, after the last one's cell.
template <scheduler Schedule>
class rows {
 public:
  constexpr rows(const Schedule& schedule, int stages, int micro_batches, int coalesce = 1)
      : schedule_(schedule), stages_(stages), micro_batches_(micro_batches), coalesce_(coalesce), of_(stages) {}
  constexpr ~rows() {
    for (int s = 0; s < stages_; ++s) delete[] of_[s];
  }
  rows(const rows&) = delete;
  rows& operator=(const rows&) = delete;

  constexpr const Schedule& schedule() const { return schedule_; }
  constexpr int stages() const { return stages_; }
  constexpr int micro_batches() const { return micro_batches_; }
  constexpr int coalesce() const { return coalesce_; }
  /// The first and the last of the micro-batches whose parameter parts come together with that of `m`.
  constexpr int first_with(int m) const { return m - m % coalesce_; }
  constexpr int last_with(int m) const {
    const int last = first_with(m) + coalesce_ - 1;
    return last < micro_batches_ ? last : micro_batches_ - 1;
  }
  constexpr int worker_of(int stage) const { return schedule_.worker_of(stages_, stage); }
  /// Whether there is such a stage and such a micro-batch; in a wrong table there may not be.
  constexpr bool knows(const cell& c) const {
    return c.stage >= 0 && c.stage < stages_ && c.micro_batch >= 0 && c.micro_batch < micro_batches_;
  }

  /// Of a stage: an element for each micro-batch.
  constexpr const cell_ticks* of(int stage) {
    if (!of_[stage]) read(worker_of(stage));
    return of_[stage];
  }

  /// Calls `use(tick, cell)` for each cell of a worker that is not idle, in order.
  template <class Use>
  GPIPE_ONCE constexpr void walk(int worker, Use&& use) const {
    const int ticks = schedule_.ticks(stages_, micro_batches_);
    for (int t = 0; t < ticks; ++t)
      if (const cell c = schedule_.at(stages_, micro_batches_, worker, t); c.kind != act::idle) use(t, c);
  }

 private:
  GPIPE_ONCE constexpr void read(int worker) {
    for (int s = 0; s < stages_; ++s)
      if (worker_of(s) == worker) of_[s] = new cell_ticks[static_cast<unsigned>(micro_batches_)]{};
    int before = -1;
    walk(worker, [&](int t, const cell& c) {
      if (knows(c) && of_[c.stage]) {
        cell_ticks& found = of_[c.stage][c.micro_batch];
        if (c.kind == act::forward && found.forward < 0) {
          found.forward = t;
          found.before_forward = before;
        } else if ((c.kind == act::backward || c.kind == act::backward_input) && found.backward < 0) {
          found.backward = t;
          found.before_backward = before;
        }
        if (c.kind == act::backward || c.kind == act::backward_parameters) found.retired = t;
      }
      before = t;
    });
    for (int s = 0; s < stages_ && coalesce_ > 1; ++s)
      for (int m = 0; m < micro_batches_ && worker_of(s) == worker; ++m)
        of_[s][m].retired = of_[s][last_with(m)].retired;
  }

  const Schedule schedule_;
  const int stages_, micro_batches_, coalesce_;
  const scratch<cell_ticks*> of_;
};

}  // namespace gpipe::detail
