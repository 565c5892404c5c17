#pragma once

#include <gpipe/core/error.hpp>
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
/// - a stage never holds the inputs of more than `in_flight` micro-batches: from forward, or the arrival of its input,
///   until its parameter gradients are there (until the end of forward if it does not train).
///
/// Ticks order cells; how long each takes is no matter of the table. `workers` is S unless a worker has several stages.
template <class T>
concept scheduler = requires(int count, int index) {
  { T::name() } -> std::same_as<const char*>;
  { T::trains } -> std::convertible_to<bool>;                          // whether there is a backward
  { T::admits(count, count) } -> std::same_as<bool>;                   // (S, M)
  { T::workers(count) } -> std::same_as<int>;                          // (S)
  { T::worker_of(count, index) } -> std::same_as<int>;                 // (S, stage)
  { T::ticks(count, count) } -> std::same_as<int>;                     // (S, M)
  { T::at(count, count, index, index) } -> std::same_as<cell>;         // (S, M, worker, tick)
  { T::in_flight(count, count, index) } -> std::same_as<int>;          // (S, M, stage)
  { T::forwarded_last(count, count, index) } -> std::same_as<int>;     // (S, M, stage): the micro-batch
};

namespace detail {

[[noreturn]] inline void schedule_refuses(const char* schedule, int stages, int micro_batches) {
  refuse({schedule, " does not admit ", stages, " stages and ", micro_batches, " micro-batches"},
         {"change either number, or choose another schedule"});
}

template <scheduler Schedule>
constexpr void require_admitted(int stages, int micro_batches) {
  if (!Schedule::admits(stages, micro_batches)) schedule_refuses(Schedule::name(), stages, micro_batches);
}

}  // namespace detail
}  // namespace gpipe
