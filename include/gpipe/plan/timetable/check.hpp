#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe {

namespace detail {

/// The faults of a set of programs.
enum class fault : std::uint8_t {
  none,
  unknown,     ///< a stage, micro-batch or link that does not exist, or is not this worker's
  premature,   ///< ran before its inputs, or waited for its gradient before recompute
  repeated,    ///< ran twice, or must not run
  missing,     ///< never ran; the position is the end of the program
  unpaired,    ///< a send and a receive that do not match, or one without the other
  deadlock,    ///< workers wait in a cycle
  retirement,  ///< parameter gradients of a stage not in the order 0 ... M-1
  stash,       ///< more micro-batches in flight than the stage has slots for
};

/// One word.
constexpr const char* name_of(fault error) {
  constexpr const char* names[] = {"none",     "unknown",  "premature",  "repeated", "missing",
                                   "unpaired", "deadlock", "retirement", "stash"};
  return names[static_cast<int>(error)];
}

}  // namespace detail

/// The first fault: the worker, the line of its program, and the instruction.
struct check_result {
  detail::fault error = detail::fault::none;
  int worker = -1;
  int position = -1;
  instruction action{};

  constexpr bool ok() const { return error == detail::fault::none; }
};

namespace detail {

/// The check of a table, row by row and link by link. Its loops are plain, because a call costs a compiler
/// microseconds.
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

  constexpr const check_result& found() const { return found_; }

  /// Reads a worker's row, unless it has been read.
  GPIPE_COLD constexpr void read(int worker) {
    const int S = S_, M = M_, ticks = schedule_.ticks(S, M);
    const bool trains = schedule_.trains;
    stage_row* const rows = rows_.data();
    for (int s = 0; s < S; ++s)
      if (schedule_.worker_of(S, s) == worker) {
        if (rows[s].reader) return;
        rows[s] = {new int[static_cast<unsigned>(M)]{}, new int[static_cast<unsigned>(M)]{}, worker + 1,
                   trains ? schedule_.in_flight(S, M, s) : M};
      }
    stage_row* row = nullptr;
    for (int t = 0, stage = -1; t < ticks; ++t) {
      const cell c = schedule_.at(S, M, worker, t);
      if (c.kind == action_kind::idle) continue;
      if (c.stage != stage) {
        stage = c.stage;
        row = unsigned(stage) < unsigned(S) && rows[stage].reader == worker + 1 ? rows + stage : nullptr;
      }
      const int m = c.micro_batch;
      if (!row || unsigned(m) >= unsigned(M)) {
        note(fault::unknown, worker, t, c);
      } else if (c.kind == action_kind::forward) {
        int& forward = row->forward[m];
        if (forward || ++row->forwards > row->max_forwards)
          note(forward ? fault::repeated : fault::stash, worker, t, c);
        if (!forward) forward = t + 1;
      } else {
        int& backward = row->backward[m];
        if (c.kind != action_kind::backward_parameters) {
          const bool known = trains && (c.kind == action_kind::backward || c.kind == action_kind::backward_input);
          if (backward || !row->forward[m] || !known) note(wrong_backward(*row, m, known), worker, t, c);
          if (!backward) backward = t + 1;
        }
        if (c.kind != action_kind::backward_input) {
          if (row->retired != m || !backward) note(wrong_retirement(*row, m), worker, t, c);
          ++row->retired;
          ++row->max_forwards;
        }
      }
    }
    for (int s = 0; s < S; ++s)
      if (rows[s].reader == worker + 1 && (rows[s].forwards < M || (trains && rows[s].retired < M)))
        note_missing(worker, ticks, s);
  }

  /// Compares both ends of a link, whose rows have been read.
  constexpr void compare(const stage_link& link) {
    const stage_row &source = rows_[link.source], &target = rows_[link.target];
    compare(source.forward, target.forward, link.target, action_kind::forward);
    if (schedule_.trains && link.gradient)
      compare(target.backward, source.backward, link.source, action_kind::backward);
  }

 private:
  struct stage_row {
    int *forward = nullptr, *backward = nullptr;  // of each micro-batch: the tick, from 1; 0: never
    int reader = 0;                               // its worker, from 1; 0: not read yet
    int max_forwards = 0;                         // forwards so far that the stash has slots for
    int forwards = 0, retired = 0;
  };

  static constexpr fault wrong_backward(const stage_row& row, int m, bool known) {
    return !known ? fault::unknown : row.backward[m] ? fault::repeated : fault::premature;
  }
  static constexpr fault wrong_retirement(const stage_row& row, int m) {
    if (!row.backward[m]) return fault::premature;
    return m < row.retired ? fault::repeated : fault::retirement;
  }

  // Compares the ticks of a value in the stage that makes it and the stage that needs it.
  constexpr void compare(const int* made, const int* needed, int stage, action_kind kind) {
    for (int m = 0, M = M_; m < M; ++m)
      if (needed[m] && unsigned(made[m] - 1) >= unsigned(needed[m] - 1))
        note(fault::premature, schedule_.worker_of(S_, stage), needed[m] - 1, {kind, stage, m});
  }
  constexpr void note(fault error, int worker, int tick, const cell& c) {
    if (found_.ok() || tick < found_.position) found_ = {error, worker, tick, {c.kind, c.stage, c.micro_batch, -1}};
  }
  constexpr void note_missing(int worker, int end, int s) {
    for (int m = 0; m < M_; ++m)
      if (!rows_[s].forward[m]) return note(fault::missing, worker, end, {action_kind::forward, s, m});
      else if (schedule_.trains && !rows_[s].backward[m])
        return note(fault::missing, worker, end, {action_kind::backward, s, m});
    note(fault::missing, worker, end, {action_kind::backward_parameters, s, rows_[s].retired});
  }

  const Schedule schedule_;
  const int S_, M_;
  const zeroed_array<stage_row> rows_;
  check_result found_;
};

/// The first worker that has no stage; -1: each has one. It is among the first S + 1.
template <scheduler Schedule>
GPIPE_COLD constexpr int first_without_stage(const Schedule& schedule, int stages) {
  const zeroed_array<bool> has(stages + 1);
  for (int s = 0; s < stages; ++s)
    if (const int w = schedule.worker_of(stages, s); w <= stages) has[w] = true;
  int first = 0;
  while (has[first]) ++first;
  return first < schedule.workers(stages) ? first : -1;
}

}  // namespace detail

// assumes: one commit per step
/// Checks the rows of workers [first, last) of a table, with the links that reach them: a table that is too large for
/// one constant evaluation is checked in pieces. Returns the first bad cell; its position is a tick. A stage whose
/// worker does not exist is `unknown`, a worker without a stage is `missing`. Throws as `step_programs` does.
///
/// It needs no programs. Let each row be right: every cell once, each (stage, micro-batch) forward, then backward,
/// parameter gradients ascending, stash within its bound; and let each value that goes over a link be made in an
/// *earlier tick* than the one that needs it. Then `lower` puts a transfer after the tick that makes its bytes, not
/// after the tick that needs them, and both ends at the same position of one total order (see there). So the first
/// event that has not happened can always happen: programs of a right table run to their end under rendezvous and with
/// any slots. `check_schedule` gets the same result by running the programs.
template <scheduler Schedule>
GPIPE_COLD constexpr check_result check_timetable(const Schedule& schedule, int stages, int micro_batches,
                                                  const stage_link* links, int link_count, int first, int last) {
  detail::require_admitted(schedule, stages, micro_batches);
  detail::require_links(stages, links, link_count);
  for (int s = 0; s < stages; ++s)
    if (const int w = schedule.worker_of(stages, s); w < 0 || w >= schedule.workers(stages))
      return {detail::fault::unknown, w, 0, {action_kind::forward, s, 0, -1}};
  if (const int w = detail::first_without_stage(schedule, stages); w >= 0) return {detail::fault::missing, w, 0, {}};
  detail::table_check<Schedule> table(schedule, stages, micro_batches);
  for (int w = first; w < last && w < schedule.workers(stages); ++w) table.read(w);
  for (int i = 0; i < link_count; ++i) {
    const int worker = schedule.worker_of(stages, links[i].target);
    if (worker < first || worker >= last) continue;
    table.read(schedule.worker_of(stages, links[i].source));
    table.compare(links[i]);
  }
  return table.found();
}

/// The whole table.
template <scheduler Schedule>
constexpr check_result check_timetable(const Schedule& schedule, int stages, int micro_batches, const stage_link* links,
                                       int link_count) {
  return check_timetable(schedule, stages, micro_batches, links, link_count, 0, stages);
}

constexpr check_result check_timetable(schedule_choice chosen, int stages, int micro_batches, const stage_link* links,
                                       int link_count, int first, int last) {
  return check_timetable<schedule_choice>(chosen, stages, micro_batches, links, link_count, first, last);
}
constexpr check_result check_timetable(schedule_choice chosen, int stages, int micro_batches, const stage_link* links,
                                       int link_count) {
  return check_timetable(chosen, stages, micro_batches, links, link_count, 0, stages);
}

}  // namespace gpipe
