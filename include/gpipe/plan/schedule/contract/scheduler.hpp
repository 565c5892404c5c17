#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

#include <concepts>
#include <string>

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

/// Throws, with the nearest numbers of stages, and of micro-batches, below and above, that the schedule admits.
template <scheduler Schedule>
[[noreturn]] GPIPE_COLD void throw_not_admitted(const Schedule& schedule, int stages, int micro_batches) {
  std::string remedy = "choose ";
  const auto offer = [&](int given, const char* noun, auto admits) {
    int below = 0, above = 0;
    for (int off = 1; off <= 64; ++off) {
      if (below == 0 && given - off >= 1 && admits(given - off)) below = given - off;
      if (above == 0 && given + off >= 1 && admits(given + off)) above = given + off;
    }
    if (below > 0 && above > 0) remedy += std::to_string(below) + " or " + several(above, noun) + ", or ";
    else if (below > 0 || above > 0) remedy += several(below + above, noun) + ", or ";
  };
  offer(stages, "stage", [&](int count) { return schedule.admits(count, micro_batches); });
  offer(micro_batches, "micro-batch", [&](int count) { return schedule.admits(stages, count); });
  throw_error(
      {schedule.name(), " does not admit ", several(stages, "stage"), " and ", several(micro_batches, "micro-batch")},
      {remedy, "another schedule"});
}

template <scheduler Schedule>
constexpr void require_admitted(const Schedule& schedule, int stages, int micro_batches) {
  if (!schedule.admits(stages, micro_batches)) throw_not_admitted(schedule, stages, micro_batches);
}

}  // namespace detail
}  // namespace gpipe
