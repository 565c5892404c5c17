#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/action.hpp>

#include <concepts>
#include <string>

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
/// A schedule with parameters, such as a number of chunks, has them as members; the others may be static throughout.
/// One that has `splits`, whether backward comes in two parts, spares others the search, and so do `stash_places` and
/// `returned_places` (S, M, from, to, on_the_way), the numbers that the functions of these names count, the latter with
/// how many parameter parts come together, if it takes that, too; one with `stretches_of` spares a compiler the look at
/// every cell.
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

/// Names the numbers of stages, and of micro-batches, that are admitted with the other number and nearest to what was
/// asked.
template <scheduler Schedule>
[[noreturn]] GPIPE_ONCE void schedule_refuses(const Schedule& schedule, int stages, int micro_batches) {
  std::string remedy = "choose ";
  const auto offer = [&](int asked, const char* what, auto admits) {
    for (int off = 1; off <= 64; ++off)
      for (const int other : {asked - off, asked + off})
        if (other >= 1 && admits(other)) {
          remedy += several(other, what) + ", or ";
          return;
        }
  };
  offer(stages, "stage", [&](int other) { return schedule.admits(other, micro_batches); });
  offer(micro_batches, "micro-batch", [&](int other) { return schedule.admits(stages, other); });
  refuse({schedule.name(), " does not admit ", several(stages, "stage"), " and ",
          several(micro_batches, "micro-batch")},
         {remedy, "another schedule"});
}

template <scheduler Schedule>
constexpr void require_admitted(const Schedule& schedule, int stages, int micro_batches) {
  if (!schedule.admits(stages, micro_batches)) schedule_refuses(schedule, stages, micro_batches);
}

}  // namespace detail
}  // namespace gpipe
