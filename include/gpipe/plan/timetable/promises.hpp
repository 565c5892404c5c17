#pragma once

#include <gpipe/core/included.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/check_runs.hpp>

#include <type_traits>
#include <utility>

namespace gpipe {

namespace broken {

/// The nearest numbers of stages with the micro-batches as they are, and the other way round.
template <int... Stages>
struct admitted_stages {};
template <int... MicroBatches>
struct admitted_micro_batches {};
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
