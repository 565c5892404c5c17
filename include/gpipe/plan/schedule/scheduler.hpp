#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/quantity.hpp>
#include <gpipe/plan/action.hpp>

#include <concepts>

namespace gpipe {

/// A schedule: a pure function from (S, M) to a table with a row for each worker and a column for each tick. It
/// promises that
///
/// - each (stage, micro-batch) runs forward in one cell, and backward in one, or in one `backward_input` and one
///   later `backward_parameters` (none of them if it does not train);
/// - what a cell needs from another stage was computed in an earlier tick;
/// - parameter gradients of a stage retire in ascending order of micro-batches;
/// - a stage never holds the inputs of more than `in_flight` micro-batches: from forward until its parameter gradients
///   are there (until the end of forward if it does not train).
///
/// Ticks order cells; how long each takes is no matter of the table. `workers` is S unless a worker has several stages.
/// A schedule with parameters, such as a number of chunks, has them as members; the others may be static throughout. One
/// that has `splits`, whether backward comes in two parts, spares others the search, and so do `stash_places` and
/// `returned_places` (S, M, from, to, on_the_way), the numbers that the functions of these names count; one with `stretches_of`
/// spares a compiler the look at every cell.
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

[[noreturn]] inline void schedule_refuses(const char* schedule, int stages, int micro_batches, int stages_admitted,
                                          int micro_batches_admitted) {
  const auto both = [](int S, int M) { return several(S, "stage") + " and " + several(M, "micro-batch"); };
  refuse({schedule, " does not admit ", both(stages, micro_batches)},
         {stages_admitted > 0 ? "choose for instance " + both(stages_admitted, micro_batches_admitted)
                              : "choose other numbers",
          ", or another schedule"});
}

/// Refuses both numbers, and names the next that would do: of micro-batches, else of stages.
template <scheduler Schedule>
GPIPE_ONCE void refuse_counts(const Schedule& schedule, int stages, int micro_batches) {
  constexpr int far = 1 << 20;
  for (int more = 1; more <= stages && stages < far && micro_batches < far; ++more)
    if (schedule.admits(stages, micro_batches + more))
      schedule_refuses(schedule.name(), stages, micro_batches, stages, micro_batches + more);
  for (int more = 1; more <= stages && stages < far; ++more)
    if (schedule.admits(stages + more, micro_batches))
      schedule_refuses(schedule.name(), stages, micro_batches, stages + more, micro_batches);
  schedule_refuses(schedule.name(), stages, micro_batches, 0, 0);
}

template <scheduler Schedule>
constexpr void require_admitted(const Schedule& schedule, int stages, int micro_batches) {
  if (!schedule.admits(stages, micro_batches)) refuse_counts(schedule, stages, micro_batches);
}

}  // namespace detail
}  // namespace gpipe
