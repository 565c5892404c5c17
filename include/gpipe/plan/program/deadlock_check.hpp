#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/program/program_run.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/fault.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe {

namespace detail {

/// Runs the programs of all workers together over channels of `slots` slots (or under `rendezvous`) and returns the
/// first fault. Programs without a fault run every (stage, micro-batch) forward and backward exactly once, each after
/// its inputs; never wait in a circle; retire parameter gradients in ascending order and stay within the stash.
///
/// It needs one pass and accepts any programs, not only those of `lower`.
GPIPE_COLD constexpr check_result check(const expected_step& terms, const program_view* programs, int workers,
                                        int memory_slots = rendezvous) {
  detail::require_links(terms.stages, terms.links, terms.link_count);
  return detail::execution(terms, programs, workers, memory_slots).run();
}

/// A worker in a circle: each waits in its cell for the next worker.
struct waiting_worker {
  int worker = -1, tick = -1;
  cell at{};

  constexpr bool operator==(const waiting_worker&) const = default;
};

/// Calls `sink(worker, instruction)` for each worker of a circle in which these programs wait; for none if they do not.
template <class Sink>
GPIPE_COLD constexpr void find_circle(const expected_step& terms, const program_view* programs, int workers,
                                      Sink&& sink) {
  detail::execution run(terms, programs, workers, rendezvous);
  if (run.run().what == fault::deadlock) run.circle(sink);
}

}  // namespace detail

/// The same for the programs that `lower` makes of a schedule. Throws as `lower` does.
template <scheduler Schedule>
GPIPE_COLD constexpr check_result check_schedule(const Schedule& schedule, int stages, int micro_batches,
                                                 const detail::recompute_choice& choice, const stage_link* links,
                                                 int link_count, int memory_slots = detail::rendezvous,
                                                 detail::send_mode mode = detail::send_mode::synchronous,
                                                 int group_gradients = 1) {
  const detail::step_programs<Schedule> all(schedule, stages, micro_batches, choice, links, link_count, mode,
                                            group_gradients);
  return detail::check(all.terms(), all.views(), all.workers(), memory_slots);
}

namespace detail {

/// Calls `sink(waiting_worker)` for each worker of a circle in which a table's cells wait, however many slots there
/// are; for none if there is no circle.
template <scheduler Schedule, class Sink>
GPIPE_COLD constexpr void find_circle_of(const Schedule& schedule, int stages, int micro_batches,
                                         const stage_link* links, int link_count, Sink&& sink) {
  detail::step_programs<Schedule> all(schedule, stages, micro_batches, {}, links, link_count, send_mode::buffered);
  const detail::zeroed_array<int> own(link_count * micro_batches), copies(2 * link_count);
  for (int i = 0; i < link_count * micro_batches; ++i) own[i] = i % micro_batches;
  for (int i = 0; i < 2 * link_count; ++i) copies[i] = micro_batches;
  expected_step terms = all.terms();
  terms.in_flight = nullptr;
  terms.memory_slots = {own.data(), own.data(), copies.data()};
  find_circle(terms, all.views(), all.workers(), [&](int worker, const instruction& it) {
    if (it.micro_batch < 0) return;  // at the end of a step
    const detail::cell_ticks& ticks = all.table().of(it.stage)[it.micro_batch];
    const bool back = it.kind == action_kind::receive_gradient || it.kind == action_kind::backward ||
                      it.kind == action_kind::backward_input;
    const int tick = back ? ticks.backward : ticks.forward;
    sink(waiting_worker{worker, tick, schedule.at(stages, micro_batches, worker, tick)});
  });
}

}  // namespace detail

constexpr check_result check_schedule(schedule_choice chosen, int stages, int micro_batches,
                                      const detail::recompute_choice& choice, const stage_link* links, int link_count,
                                      int memory_slots = detail::rendezvous,
                                      detail::send_mode mode = detail::send_mode::synchronous,
                                      int group_gradients = 1) {
  return check_schedule<schedule_choice>(chosen, stages, micro_batches, choice, links, link_count, memory_slots, mode,
                                         group_gradients);
}

}  // namespace gpipe
