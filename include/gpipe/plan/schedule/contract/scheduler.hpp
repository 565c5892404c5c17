#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe {

// change: a schedule
/// A schedule: a pure function from (S, M) to a table with one row per worker and one column per tick. It
/// promises that
///
/// - each (stage, micro-batch) runs forward in one cell, and backward in one, or in one `backward_input` and one
///   later `backward_parameters` (no backward if it does not train);
/// - the inputs of a cell from other stages were computed in an earlier tick;
/// - parameter gradients of a stage retire in ascending order of micro-batches;
/// - a stage never holds the inputs of more than `in_flight` micro-batches: from forward until its parameter gradients
///   are complete (until the end of forward if it does not train).
///
/// Ticks order the cells; they have no duration. `workers` is S unless a worker has several stages. A schedule with
/// parameters, such as a number of chunks, has them as members; all other members may be static.
///
/// Optional members save a search: `splits` (whether backward comes in two parts), and `stash_slots` and
/// `returned_slots` with the arguments (S, M, writer, reader, on_the_way), which return the numbers that the functions
/// of these names count; `returned_slots` may take the number of combined parameter parts, too. A specialized
/// `tick_runs_of` spares a compiler the reading of every cell.
template <class T>
concept scheduler = requires(const T& schedule, int count, int index) {
  { schedule.trains } -> std::convertible_to<bool>;  // whether there is a backward
  { schedule.name() } -> std::same_as<const char*>;
  { schedule.admits(count, count) } -> std::same_as<bool>;            // (S, M)
  { schedule.workers(count) } -> std::same_as<int>;                   // (S)
  { schedule.worker_of(count, index) } -> std::same_as<int>;          // (S, stage)
  { schedule.ticks(count, count) } -> std::same_as<int>;              // (S, M)
  { schedule.at(count, count, index, index) } -> std::same_as<cell>;  // (S, M, worker, tick)
  { schedule.in_flight(count, count, index) } -> std::same_as<int>;   // (S, M, stage)
};

namespace detail {

/// The nearest numbers that a schedule admits: below and above the given one; 0: none.
struct nearest_numbers {
  int below = 0, above = 0;
};
template <class Admits>
constexpr nearest_numbers nearest_to(int given, Admits&& admits) {
  nearest_numbers found;
  for (int off = 1; off <= 64; ++off) {
    if (found.below == 0 && given - off >= 1 && admits(given - off)) found.below = given - off;
    if (found.above == 0 && given + off >= 1 && admits(given + off)) found.above = given + off;
  }
  return found;
}

/// Throws, with the nearest numbers of stages, and of micro-batches, that the schedule admits.
template <scheduler Schedule>
[[noreturn]] GPIPE_COLD void throw_not_admitted(const Schedule& schedule, int stages, int micro_batches) {
  std::string remedy = "choose ";
  const auto offer = [&](const nearest_numbers& nearest, const char* noun) {
    const auto [below, above] = nearest;
    if (below > 0 && above > 0) remedy += std::to_string(below) + " or " + several(above, noun) + ", or ";
    else if (below > 0 || above > 0) remedy += several(below + above, noun) + ", or ";
  };
  offer(nearest_to(stages, [&](int count) { return schedule.admits(count, micro_batches); }), "stage");
  offer(nearest_to(micro_batches, [&](int count) { return schedule.admits(stages, count); }), "micro-batch");
  throw_error(
      {schedule.name(), " does not admit ", several(stages, "stage"), " and ", several(micro_batches, "micro-batch")},
      {remedy, "another schedule"});
}

template <scheduler Schedule>
constexpr void require_admitted(const Schedule& schedule, int stages, int micro_batches) {
  if (!schedule.admits(stages, micro_batches)) throw_not_admitted(schedule, stages, micro_batches);
}

}  // namespace detail

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

// change: a schedule; before custom
/// The built-in schedules, for a choice at run time, a custom one, and a table that a plan searches for its stages at
/// run time. A new built-in schedule has one line here, one in `schedule_types` of any_schedule.hpp and, for the search
/// for the best plan, one in `searched_kinds` of tools/best. All other code reads these lists.
enum class schedule_kind {
  fill_drain,
  one_f_one_b,
  interleaved,
  looped_bfs,
  zb_h1,
  interleaved_zb,
  zb_v,
  dual_pipe_v,
  v_half,
  v_min,
  zb_2p,
  forward_only,
  custom,
  searched
};

/// The warm-up of the interleaved schedule: how many forwards a worker runs before its first backward.
/// Automatic: as the plan chooses; outside a plan it is the shortest.
enum class warmup_kind : std::uint8_t { automatic, shortest, longest };

constexpr const char* name_of(warmup_kind kind) {
  return kind == warmup_kind::automatic ? "automatic" : kind == warmup_kind::shortest ? "shortest" : "longest";
}

}  // namespace gpipe
