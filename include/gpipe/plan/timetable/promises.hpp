#pragma once

#include <initializer_list>
#include <type_traits>
#include <utility>

#include <gpipe/core/included.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/check.hpp>

namespace gpipe {

namespace broken {

/// The nearest numbers of stages with the micro-batches as they are, and the other way round.
template <int... Stages>
struct admitted_stages {};
template <int... MicroBatches>
struct admitted_micro_batches {};
// change: a schedule; if it does not admit every number of stages
template <int Stages, int MicroBatches, class OtherStages, class OtherMicroBatches, bool Holds>
struct schedule_admits {
  static_assert(Holds,
                "gpipe: the schedule does not admit these stages and micro-batches (Stages, MicroBatches), but the "
                "nearest others that are named: zb_v, dual_pipe_v, v_half and v_min admit an even number of stages; "
                "chunks must divide the stages, and the rounds of an interleaved schedule the micro-batches");
};
template <int Worker, int Tick, action_kind Cell, int Stage, int MicroBatch, detail::fault What, bool Holds>
struct schedule_is_sound {
  static_assert(Holds, "gpipe: the schedule's table is wrong (Worker, Tick, its first bad Cell, What)");
};

}  // namespace broken

namespace detail {

/// Checks a table by its tick runs, without reading every cell. The ticks of a run are linear in the micro-batch, so
/// two runs are compared at the ends of their common micro-batches.
template <scheduler Schedule>
class tick_run_check {
  using tick_runs = tick_runs_of<Schedule>;

 public:
  constexpr tick_run_check(const Schedule& schedule, int stages, int micro_batches)
      : schedule_(schedule), S_(stages), M_(micro_batches) {}

  /// Every run is this worker's, its ends are cells of the table, and no two have a tick in common.
  constexpr bool row(int worker) const {
    const int ticks = schedule_.ticks(S_, M_);
    for (int i = 0; i < tick_runs::count; ++i) {
      const tick_run x = of(worker, i);
      if (x.count == 0) continue;
      if (x.stage < 0 || x.stage >= S_ || schedule_.worker_of(S_, x.stage) != worker) return false;
      if (x.first < 0 || x.count < 0 || x.count > M_ - x.first) return false;
      if (!in(x, forward) && !in(x, input) && !in(x, parameters)) return false;
      for (const int m : {x.first, x.last()})
        if (const int t = x.tick_of(m); t < 0 || t >= ticks || schedule_.at(S_, M_, worker, t) != x.at(m)) return false;
      for (int j = 0; j < i; ++j)
        if (may_meet(x, of(worker, j))) return false;
    }
    return true;
  }

  /// The stage runs every micro-batch forward, then backward; its gradients retire in order, and the stash suffices.
  constexpr bool stage(int s) const {
    if (!covers(s, forward)) return false;
    if (!schedule_.trains) return true;
    const int memory_slots = schedule_.in_flight(S_, M_, s);
    return covers(s, input) && covers(s, parameters) && before(s, forward, s, input) &&
           before(s, input, s, parameters) && retires(s) &&
           (memory_slots >= M_ ||
            (memory_slots >= 0 && before(s, parameters, s, forward, memory_slots)));  // at most `memory_slots` ahead
  }

  /// Each value that goes over a link is made in an earlier tick.
  constexpr bool over(const stage_link& link) const {
    return before(link.source, forward, link.target, forward) &&
           (!schedule_.trains || !link.gradient || before(link.target, input, link.source, input));
  }

 private:
  enum part { forward, input, parameters };

  constexpr tick_run of(int worker, int index) const { return tick_runs::at(schedule_, S_, M_, worker, index); }
  constexpr tick_run of_stage(int s, int index) const { return of(schedule_.worker_of(S_, s), index); }

  constexpr bool in(const tick_run& x, part p) const {
    if (p == forward) return x.kind == action_kind::forward;
    return schedule_.trains &&
           (x.kind == action_kind::backward ||
            x.kind == (p == input ? action_kind::backward_input : action_kind::backward_parameters));
  }
  constexpr bool holds(const tick_run& x, int s, part p) const { return x.stage == s && x.count > 0 && in(x, p); }

  static constexpr bool may_meet(const tick_run& x, const tick_run& y) {
    if (x.count == 0 || y.count == 0) return false;
    const int a = x.tick_of(x.first), b = x.tick_of(x.last()), c = y.tick_of(y.first), d = y.tick_of(y.last());
    if ((a < c && a < d && b < c && b < d) || (a > c && a > d && b > c && b > d)) return false;
    return x.every == 0 || (x.every != y.every && x.every != -y.every) || (a - c) % x.every == 0;
  }
  /// Every micro-batch once.
  constexpr bool covers(int s, part p) const {
    int next = 0;
    for (int i = 0; i < tick_runs::count; ++i)
      if (const tick_run x = of_stage(s, i); holds(x, s, p)) {
        if (x.first != next) return false;
        next += x.count;
      }
    return next == M_;
  }
  /// Parameter gradients, one micro-batch after the other.
  constexpr bool retires(int s) const {
    int ended = -1;
    for (int i = 0; i < tick_runs::count; ++i)
      if (const tick_run x = of_stage(s, i); holds(x, s, parameters)) {
        if (x.tick <= ended || (x.count > 1 && x.every <= 0)) return false;
        ended = x.tick_of(x.last());
      }
    return true;
  }
  /// Part `p` of stage `a` with micro-batch m comes before part `q` of stage `b` with m + `ahead`, or is the same cell.
  constexpr bool before(int a, part p, int b, part q, int ahead = 0) const {
    for (int i = 0; i < tick_runs::count; ++i) {
      const tick_run x = of_stage(a, i);
      if (!holds(x, a, p)) continue;
      for (int j = 0; j < tick_runs::count; ++j) {
        const tick_run y = of_stage(b, j);
        if (!holds(y, b, q) || (a == b && i == j)) continue;
        const int low = x.first + ahead > y.first ? x.first + ahead : y.first;
        const int high = x.last() + ahead < y.last() ? x.last() + ahead : y.last();
        if (low > high) continue;
        for (const int m : {low, high})
          if (x.tick_of(m - ahead) >= y.tick_of(m)) return false;
      }
    }
    return true;
  }

  const Schedule schedule_;
  const int S_, M_;
};

/// Whether the tick runs of a schedule prove its table right (see `check_timetable`), for workers and stages [first,
/// last) and the links that reach them. False proves nothing: the schedule may have no tick runs.
template <scheduler Schedule>
constexpr bool check_runs(const Schedule& schedule, int stages, int micro_batches, const stage_link* links,
                          int link_count, int first, int last) {
  if constexpr (tick_runs_of<Schedule>::count == 0) {
    return false;
  } else {
    require_admitted(schedule, stages, micro_batches);
    require_links(stages, links, link_count);
    const int workers = schedule.workers(stages);
    const tick_run_check<Schedule> table(schedule, stages, micro_batches);
    for (int w = first; w < last && w < workers; ++w)
      if (!table.row(w)) return false;
    for (int s = first; s < last && s < stages; ++s)
      if (const int w = schedule.worker_of(stages, s); w < 0 || w >= workers || !table.stage(s)) return false;
    for (int i = 0; i < link_count; ++i)
      if (links[i].target >= first && links[i].target < last && !table.over(links[i])) return false;
    return true;
  }
}

/// The number of workers whose rows one constant evaluation checks under the compilers' default limits, and the number
/// of such evaluations. (A single row of more than about 12,000 ticks exceeds the limits.)
struct check_chunks {
  int workers = 1, pieces = 1;
};

template <scheduler Schedule>
constexpr bool admits(const Schedule& schedule, int stages, int micro_batches) {
  return schedule.admits(stages, micro_batches);
}

template <template <int...> class As, int Lower, int Higher>
constexpr auto named_numbers() {
  if constexpr (Lower > 0 && Higher > 0) return As<Lower, Higher>{};
  else if constexpr (Lower > 0 || Higher > 0) return As<Lower + Higher>{};
  else return As<>{};
}
template <class Table>
constexpr auto refused_numbers() {
  constexpr int S = Table::stages, M = Table::micro_batches;
  constexpr nearest_numbers stages = nearest_to(S, [](int count) { return admits(Table::schedule, count, M); }),
                            parts = nearest_to(M, [](int count) { return admits(Table::schedule, S, count); });
  using other_stages = decltype(named_numbers<broken::admitted_stages, stages.below, stages.above>());
  using other_parts = decltype(named_numbers<broken::admitted_micro_batches, parts.below, parts.above>());
  return std::type_identity<broken::schedule_admits<S, M, other_stages, other_parts, false>>{};
}

template <scheduler Schedule>
constexpr check_chunks pieces_of(const Schedule& schedule, int stages, int micro_batches) {
  // A table without ticks or workers is wrong; the check finds this like any other mistake.
  const int table_ticks = schedule.ticks(stages, micro_batches), ticks = table_ticks < 1 ? 1 : table_ticks;
  const int workers = schedule.workers(stages) < 1 ? 1 : schedule.workers(stages);
  const int fit = ticks < 10240 ? 10240 / ticks : 1;
  return {fit, (workers + fit - 1) / fit};
}

template <class Table, int First, int Last>
inline constexpr check_result piece_checked = check_timetable(Table::schedule, Table::stages, Table::micro_batches,
                                                              Table::links, Table::link_count, First, Last);

template <class Table, int Workers, int... Piece>
constexpr check_result first_fault(std::integer_sequence<int, Piece...>) {
  check_result found;
  const auto note = [&found](const check_result& result) {
    if (!result.ok() && (found.ok() || result.position < found.position)) found = result;
  };
  (note(piece_checked<Table, Piece * Workers, (Piece + 1) * Workers>), ...);
  return found;
}

inline constexpr int stages_at_once = 256;

template <class Table, int First>
inline constexpr bool piece_proven = check_runs(Table::schedule, Table::stages, Table::micro_batches, Table::links,
                                                Table::link_count, First, First + stages_at_once);

template <class Table, int... Piece>
constexpr bool proven(std::integer_sequence<int, Piece...>) {
  return (piece_proven<Table, Piece * stages_at_once> && ...);
}

/// Checks a table of any size at compile time: by the schedule's tick runs or, if these prove nothing, cell by cell in
/// pieces. `Table` is a type with the static constants `schedule` (an object or a choice), `stages`, `micro_batches`,
/// `links` (an array or a pointer) and `link_count`.
template <class Table>
constexpr check_result checked_table() {
  constexpr int stages = Table::stages < 1 ? 1 : Table::stages, pieces = (stages - 1) / detail::stages_at_once + 1;
  if constexpr (detail::proven<Table>(std::make_integer_sequence<int, pieces>{})) {
    return {};
  } else {
    constexpr detail::check_chunks work = detail::pieces_of(Table::schedule, Table::stages, Table::micro_batches);
    return detail::first_fault<Table, work.workers>(std::make_integer_sequence<int, work.pieces>{});
  }
}

/// `static_assert(require_sound<Table>())`: the compiler prints the first bad cell of a wrong table.
template <class Table>
constexpr bool require_sound() {
  constexpr bool admitted = detail::admits(Table::schedule, Table::stages, Table::micro_batches);
  if constexpr (!admitted) {
    static_cast<void>(detail::asserted<typename decltype(detail::refused_numbers<Table>())::type>{});
  } else {
    constexpr check_result found = checked_table<Table>();
    static_assert(sizeof(broken::schedule_is_sound<found.worker, found.position, found.action.kind, found.action.stage,
                                                   found.action.micro_batch, found.error, found.ok()>) > 0);
  }
  return true;
}

}  // namespace detail

}  // namespace gpipe
