#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/promises.hpp>

#include <cstdint>
#include <utility>

namespace gpipe {

namespace broken {

template <int Worker, int Tick, action_kind Cell, int Stage, int MicroBatch>
struct waits {};
template <bool Holds, class... Waits>
struct workers_wait_in_no_cycle {
  static_assert(Holds,
                "gpipe: the schedule's workers wait in a circle, each for the next one (of each its Worker, "
                "Tick, Cell, Stage, MicroBatch)");
};
template <int Worker, int Line, action_kind Action, int Stage, int MicroBatch, detail::fault What, bool Holds>
struct programs_run {
  static_assert(Holds,
                "gpipe: the plan's programs do not run in the plan's slots (Worker, Line, its Action, Stage, "
                "MicroBatch, What)");
};

}  // namespace broken

namespace detail {

/// The maximum of workers x ticks for which constant evaluations run the programs: it bounds compile time and keeps
/// within the compilers' default limits. The programs of a larger plan run at start, when the trainer is made.
inline constexpr std::int64_t max_executed = 640;

template <class Table>
constexpr bool executed_early() {
  const auto& schedule = Table::schedule;
  return std::int64_t{schedule.workers(Table::stages)} * schedule.ticks(Table::stages, Table::micro_batches) <=
         max_executed;
}

template <int Workers>
struct cycle_array {
  int count = 0;
  waiting_worker workers[static_cast<unsigned>(Workers) + 1u]{};
};

template <class Table>
inline constexpr auto cycle_of = [] {
  constexpr int workers = Table::schedule.workers(Table::stages);
  cycle_array<workers> cycle;
  if constexpr (executed_early<Table>())
    find_cycle_of(Table::schedule, Table::stages, Table::micro_batches, Table::links, Table::link_count,
                  [&](const waiting_worker& worker) { cycle.workers[cycle.count++] = worker; });
  return cycle;
}();

template <class Table>
constexpr bool waits_in_cycle() {
  if constexpr (admits(Table::schedule, Table::stages, Table::micro_batches))
    if constexpr (!checked_table<Table>().ok()) return cycle_of<Table>.count > 0;
  return false;
}

template <class Table, int... Indices>
constexpr void require_no_cycle(std::integer_sequence<int, Indices...>) {
  constexpr const auto& workers = cycle_of<Table>.workers;
  static_assert(sizeof(broken::workers_wait_in_no_cycle<
                       sizeof...(Indices) == 0,
                       broken::waits<workers[Indices].worker, workers[Indices].tick, workers[Indices].action.kind,
                                     workers[Indices].action.stage, workers[Indices].action.micro_batch>...>) > 0);
}

/// The programs of all workers, one after the other, and their first fault.
template <int Workers, int MaxLines>
struct checked_programs {
  check_result found{};
  int begin[static_cast<unsigned>(Workers) + 1u]{};
  instruction lines[static_cast<unsigned>(MaxLines)]{};

  constexpr void keep(const program_view* programs, int workers) {
    for (int w = 0, length = 0; w < workers; begin[++w] = length)
      for (int i = 0; i < programs[w].length; ++i) lines[length++] = programs[w].lines[i];
  }
};

/// The slots of the micro-batches, [link][2][M]: of activations, and of gradients.
template <class Table>
inline constexpr auto link_slots_of = [] {
  constexpr int M = Table::micro_batches, count = Table::link_count;
  constant_list<int, 2 * count * M> slot_numbers;
  tick_index table(Table::schedule, Table::stages, M, Table::group_gradients);
  for (int i = 0; i < count; ++i)
    assign_link_slots(table, Table::links[i], Table::late, slot_numbers.elements + 2 * i * M,
                      slot_numbers.elements + (2 * i + 1) * M);
  return slot_numbers;
}();

/// The programs of a table of `require_programs`, for a pass that trains or for one that runs forward only.
template <class Table, bool Trains>
inline constexpr auto programs_of = [] {
  constexpr int S = Table::stages, M = Table::micro_batches, count = Table::link_count;
  const stage_link* const links = Table::links;
  constexpr int max_lines = Trains ? 4 * M * (S + count) + 2 * S : M * (S + 2 * count);  // see `step_programs`
  checked_programs<Table::schedule.workers(S), max_lines> checked;
  const zeroed_array<int> stash(count * M), returned(count * M), copies(2 * count);
  for (int i = 0; i < count; ++i) {
    for (int m = 0; m < M; ++m) {
      stash[i * M + m] = link_slots_of<Table>.elements[2 * i * M + m];
      returned[i * M + m] = link_slots_of<Table>.elements[(2 * i + 1) * M + m];
    }
    Table::set_copies(links[i], copies.data() + 2 * i);
  }
  const link_slot_table memory_slots{stash.data(), returned.data(), copies.data()};
  const auto keep = [&checked](const program_view* programs, int workers) { checked.keep(programs, workers); };
  if constexpr (Trains)
    checked.found = check_planned(Table::schedule, S, M, Table::recompute(), links, count, Table::group_gradients,
                                  memory_slots, Table::ties, keep);
  else checked.found = check_planned(Table::forwards, S, M, {}, links, count, 1, memory_slots, false, keep);
  return checked;
}();

/// A view of each worker's program.
template <class Table, bool Trains>
inline constexpr auto program_views_of = [] {
  constexpr int workers = Table::schedule.workers(Table::stages);
  constexpr const auto& checked = programs_of<Table, Trains>;
  constant_list<program_view, workers> views;
  for (int w = 0; w < workers; ++w)
    views.elements[w] = {checked.lines + checked.begin[w], checked.begin[w + 1] - checked.begin[w]};
  return views;
}();

/// Whether the table is right and small enough.
template <class Table>
constexpr bool runs_early() {
  if constexpr (!admits(Table::schedule, Table::stages, Table::micro_batches)) return false;
  else return executed_early<Table>() && checked_table<Table>().ok();
}

template <class Table, bool Trains>
constexpr void require_pass() {
  constexpr check_result found = programs_of<Table, Trains>.found;
  static_assert(sizeof(broken::programs_run<found.worker, found.position, found.action.kind, found.action.stage,
                                            found.action.micro_batch, found.error, found.ok()>) > 0);
}

}  // namespace detail

/// `static_assert(require_runnable<Table>())`: as `require_sound`, but if the cells of the table wait in a cycle, the
/// compiler prints the cycle.
template <class Table>
constexpr bool require_runnable() {
  if constexpr (detail::waits_in_cycle<Table>())
    detail::require_no_cycle<Table>(std::make_integer_sequence<int, detail::cycle_of<Table>.count>{});
  else detail::require_sound<Table>();
  return true;
}

namespace detail {

/// `static_assert(require_programs<Table>())`: runs the programs that workers will run, in the slots that the plan has,
/// if they are small enough (`max_executed`). Besides the constants of `require_sound`, the table has
/// `group_gradients`, `late`, `ties`, `recompute()`, `forwards` (the schedule of a pass without backward), and
/// `set_copies(link, int[2])`, which sets the numbers of slots that the stages of a link have for its activations and
/// gradients.
template <class Table>
constexpr bool require_programs() {
  if constexpr (detail::runs_early<Table>()) {
    if constexpr (Table::schedule.trains) detail::require_pass<Table, true>();
    detail::require_pass<Table, false>();
  }
  return true;
}

}  // namespace detail

}  // namespace gpipe
