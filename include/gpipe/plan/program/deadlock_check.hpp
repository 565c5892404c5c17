#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/program/program_run.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/fault.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe {

namespace detail {

/// Runs the programs of all workers together over channels of `channel_slots` slots (or under `rendezvous`) and returns
/// the first fault. Programs without a fault run every (stage, micro-batch) forward and backward exactly once, each
/// after its inputs; never wait in a cycle; retire parameter gradients in ascending order and stay within the stash.
///
/// It needs one pass and accepts any programs, not only the ones that `lower` makes.
GPIPE_COLD constexpr check_result check(const expected_step& expected, const program_view* programs, int workers,
                                        int channel_slots = rendezvous) {
  detail::require_links(expected.stages, expected.links, expected.link_count);
  return detail::program_run(expected, programs, workers, channel_slots).run();
}

/// A worker in a cycle: each waits in its cell for the next worker.
struct waiting_worker {
  int worker = -1, tick = -1;
  cell action{};

  constexpr bool operator==(const waiting_worker&) const = default;
};

/// Calls `sink(worker, instruction)` for each worker of a cycle in which these programs wait; for none if they do not.
template <class Sink>
GPIPE_COLD constexpr void find_cycle(const expected_step& expected, const program_view* programs, int workers,
                                     Sink&& sink) {
  detail::program_run run(expected, programs, workers, rendezvous);
  if (run.run().error == fault::deadlock) run.report_cycle(sink);
}

}  // namespace detail

/// The same for the programs that `lower` makes of a schedule. Throws as `lower` does.
template <scheduler Schedule>
GPIPE_COLD constexpr check_result check_schedule(const Schedule& schedule, int stages, int micro_batches,
                                                 const detail::recompute_choice& choice, const stage_link* links,
                                                 int link_count, int channel_slots = detail::rendezvous,
                                                 detail::send_mode mode = detail::send_mode::synchronous,
                                                 int group_gradients = 1) {
  const detail::step_programs<Schedule> programs(schedule, stages, micro_batches, choice, links, link_count, mode,
                                                 group_gradients);
  return detail::check(programs.expected(), programs.views(), programs.workers(), channel_slots);
}

namespace detail {

/// Calls `sink(waiting_worker)` for each worker of a cycle in which a table's cells wait, however many slots there
/// are; for none if there is no cycle.
template <scheduler Schedule, class Sink>
GPIPE_COLD constexpr void find_cycle_of(const Schedule& schedule, int stages, int micro_batches,
                                        const stage_link* links, int link_count, Sink&& sink) {
  detail::step_programs<Schedule> programs(schedule, stages, micro_batches, {}, links, link_count, send_mode::buffered);
  const detail::zeroed_array<int> slot_numbers(link_count * micro_batches), copies(2 * link_count);
  for (int i = 0; i < link_count * micro_batches; ++i) slot_numbers[i] = i % micro_batches;
  for (int i = 0; i < 2 * link_count; ++i) copies[i] = micro_batches;
  expected_step expected = programs.expected();
  expected.in_flight = nullptr;
  expected.memory_slots = {slot_numbers.data(), slot_numbers.data(), copies.data()};
  find_cycle(expected, programs.views(), programs.workers(), [&](int worker, const instruction& action) {
    if (action.micro_batch < 0) return;  // at the end of a step
    const detail::cell_ticks& ticks = programs.table().of(action.stage)[action.micro_batch];
    const bool back = action.kind == action_kind::receive_gradient || action.kind == action_kind::backward ||
                      action.kind == action_kind::backward_input;
    const int tick = back ? ticks.backward : ticks.forward;
    sink(waiting_worker{worker, tick, schedule.at(stages, micro_batches, worker, tick)});
  });
}

}  // namespace detail

constexpr check_result check_schedule(schedule_choice chosen, int stages, int micro_batches,
                                      const detail::recompute_choice& choice, const stage_link* links, int link_count,
                                      int channel_slots = detail::rendezvous,
                                      detail::send_mode mode = detail::send_mode::synchronous,
                                      int group_gradients = 1) {
  return check_schedule<schedule_choice>(chosen, stages, micro_batches, choice, links, link_count, channel_slots, mode,
                                         group_gradients);
}

}  // namespace gpipe
