#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/scheduler.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/fault.hpp>

namespace gpipe {

namespace detail {

/// A table being checked, row by row and link by link. Its loops are plain: a call costs a compiler microseconds.
template <scheduler Schedule>
class table_check {
 public:
  constexpr table_check(const Schedule& schedule, int stages, int micro_batches)
      : schedule_(schedule), S_(stages), M_(micro_batches), rows_(stages) {}
  constexpr ~table_check() {
    for (int s = 0; s < S_; ++s) {
      delete[] rows_[s].forward;
      delete[] rows_[s].backward;
    }
  }
  table_check(const table_check&) = delete;
  table_check& operator=(const table_check&) = delete;

  constexpr const verdict& found() const { return found_; }

  /// Reads a worker's row, unless it has been read.
  GPIPE_ONCE constexpr void read(int worker) {
    const int S = S_, M = M_, ticks = schedule_.ticks(S, M);
    const bool trains = schedule_.trains;
    stage_row* const rows = rows_.data();
    for (int s = 0; s < S; ++s)
      if (schedule_.worker_of(S, s) == worker) {
        if (rows[s].reader) return;
        rows[s] = {new int[static_cast<unsigned>(M)]{},
                   new int[static_cast<unsigned>(M)]{},
                   worker + 1,
                   trains ? schedule_.in_flight(S, M, s) : M};
      }
    stage_row* row = nullptr;
    for (int t = 0, stage = -1; t < ticks; ++t) {
      const cell c = schedule_.at(S, M, worker, t);
      if (c.kind == act::idle) continue;
      if (c.stage != stage) {
        stage = c.stage;
        row = unsigned(stage) < unsigned(S) && rows[stage].reader == worker + 1 ? rows + stage : nullptr;
      }
      const int m = c.micro_batch;
      if (!row || unsigned(m) >= unsigned(M)) {
        note(fault::unknown, worker, t, c);
      } else if (c.kind == act::forward) {
        int& forward = row->forward[m];
        if (forward || ++row->forwards > row->most) note(forward ? fault::repeated : fault::stash, worker, t, c);
        if (!forward) forward = t + 1;
      } else {
        int& backward = row->backward[m];
        if (c.kind != act::backward_parameters) {
          const bool known = trains && (c.kind == act::backward || c.kind == act::backward_input);
          if (backward || !row->forward[m] || !known) note(wrong_backward(*row, m, known), worker, t, c);
          if (!backward) backward = t + 1;
        }
        if (c.kind != act::backward_input) {
          if (row->retired != m || !backward) note(wrong_retirement(*row, m), worker, t, c);
          ++row->retired;
          ++row->most;
        }
      }
    }
    for (int s = 0; s < S; ++s)
      if (rows[s].reader == worker + 1 && (rows[s].forwards < M || (trains && rows[s].retired < M)))
        note_missing(worker, ticks, s);
  }

  /// Compares both ends of a link, whose rows have been read.
  constexpr void compare(const link& it) {
    const stage_row &from = rows_[it.from], &to = rows_[it.to];
    compare(from.forward, to.forward, it.to, act::forward);
    if (schedule_.trains && it.gradient) compare(to.backward, from.backward, it.from, act::backward);
  }

 private:
  struct stage_row {
    int *forward = nullptr, *backward = nullptr;  // of each micro-batch: the tick, from 1; 0: never
    int reader = 0;  // its worker, from 1; 0: not read yet
    int most = 0;    // forwards so far that the stash has room for
    int forwards = 0, retired = 0;
  };

  static constexpr fault wrong_backward(const stage_row& row, int m, bool known) {
    return !known ? fault::unknown : row.backward[m] ? fault::repeated : fault::premature;
  }
  static constexpr fault wrong_retirement(const stage_row& row, int m) {
    if (!row.backward[m]) return fault::premature;
    return m < row.retired ? fault::repeated : fault::retirement;
  }

  // A stage needs what another one has made.
  constexpr void compare(const int* made, const int* needed, int stage, act kind) {
    for (int m = 0, M = M_; m < M; ++m)
      if (needed[m] && unsigned(made[m] - 1) >= unsigned(needed[m] - 1))
        note(fault::premature, schedule_.worker_of(S_, stage), needed[m] - 1, {kind, stage, m});
  }
  constexpr void note(fault what, int worker, int tick, const cell& c) {
    if (found_.ok() || tick < found_.position) found_ = {what, worker, tick, {c.kind, c.stage, c.micro_batch, -1}};
  }
  constexpr void note_missing(int worker, int end, int s) {
    for (int m = 0; m < M_; ++m)
      if (!rows_[s].forward[m]) return note(fault::missing, worker, end, {act::forward, s, m});
      else if (schedule_.trains && !rows_[s].backward[m])
        return note(fault::missing, worker, end, {act::backward, s, m});
    note(fault::missing, worker, end, {act::backward_parameters, s, rows_[s].retired});
  }

  const Schedule schedule_;
  const int S_, M_;
  const scratch<stage_row> rows_;
  verdict found_;
};

/// The first worker that has no stage; -1: each has one. No more than S + 1 need be looked at.
template <scheduler Schedule>
GPIPE_ONCE constexpr int first_without_stage(const Schedule& schedule, int stages) {
  const scratch<bool> has(stages + 1);
  for (int s = 0; s < stages; ++s)
    if (const int w = schedule.worker_of(stages, s); w <= stages) has[w] = true;
  int first = 0;
  while (has[first]) ++first;
  return first < schedule.workers(stages) ? first : -1;
}

}  // namespace detail

/// Checks the table itself, and of it the rows of workers [first, last) only, with all that comes to them: so a table
/// that is too large for one constant evaluation is checked in pieces. Tells the first bad cell; its position is a
/// tick. A stage of no worker that is there is an unknown one's; a worker of no stage misses all. Throws what `lower`
/// throws.
///
/// It takes no programs, for it needs none. Let each row be right: every cell once, each (stage, micro-batch) forward,
/// then backward, parameter gradients ascending, stash within its bound; and let what a cell takes over a link be made
/// in an *earlier tick*. Then `lower` puts a transfer after the tick in which its bytes are made, not after the tick in
/// which they are needed, and both ends at the same place of one total order (see there). So the first of what has not
/// happened yet can always happen: programs of a right table run to their end under rendezvous and with any slots.
/// `check_schedule` comes to the same verdict by running the programs.
template <scheduler Schedule>
GPIPE_ONCE constexpr verdict check_table(const Schedule& schedule, int stages, int micro_batches, const link* links,
                                         int link_count, int first, int last) {
  detail::require_admitted(schedule, stages, micro_batches);
  detail::require_links(stages, links, link_count);
  for (int s = 0; s < stages; ++s)
    if (const int w = schedule.worker_of(stages, s); w < 0 || w >= schedule.workers(stages))
      return {fault::unknown, w, 0, {act::forward, s, 0, -1}};
  if (const int w = detail::first_without_stage(schedule, stages); w >= 0) return {fault::missing, w, 0, {}};
  detail::table_check<Schedule> table(schedule, stages, micro_batches);
  for (int w = first; w < last && w < schedule.workers(stages); ++w) table.read(w);
  for (int i = 0; i < link_count; ++i) {
    const int worker = schedule.worker_of(stages, links[i].to);
    if (worker < first || worker >= last) continue;
    table.read(schedule.worker_of(stages, links[i].from));
    table.compare(links[i]);
  }
  return table.found();
}

/// The whole table.
template <scheduler Schedule>
constexpr verdict check_table(const Schedule& schedule, int stages, int micro_batches, const link* links,
                              int link_count) {
  return check_table(schedule, stages, micro_batches, links, link_count, 0, stages);
}

constexpr verdict check_table(schedule_choice chosen, int stages, int micro_batches, const link* links, int link_count,
                              int first, int last) {
  return check_table<schedule_choice>(chosen, stages, micro_batches, links, link_count, first, last);
}
constexpr verdict check_table(schedule_choice chosen, int stages, int micro_batches, const link* links,
                              int link_count) {
  return check_table(chosen, stages, micro_batches, links, link_count, 0, stages);
}

}  // namespace gpipe
