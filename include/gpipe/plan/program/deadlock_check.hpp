#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/execution.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/schedule/action.hpp>
#include <gpipe/plan/timetable/fault.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

#include <cstdint>
#include <limits>

namespace gpipe {

/// Runs the programs of all workers together over channels of `slots` slots (or under `rendezvous`) and returns the
/// first fault. Programs without a fault run every (stage, micro-batch) forward and backward exactly once, each after
/// its inputs; never wait in a circle; retire parameter gradients in ascending order and stay within the stash.
///
/// It needs one pass and accepts any programs, not only those of `lower`.
GPIPE_COLD constexpr check_result check(const expected_step& terms, const program_view* programs, int workers,
                                   int slots = rendezvous) {
  detail::require_links(terms.stages, terms.links, terms.link_count);
  return detail::execution(terms, programs, workers, slots).run();
}

namespace detail {

[[noreturn]] inline void too_long(int stages, int micro_batches) {
  throw_error({"stages is ", stages, " and micro_batches is ", micro_batches,
               ": the programs have more lines than an int counts"},
              {"choose fewer"});
}

}  // namespace detail

/// The same for the programs that `lower` makes of a schedule. Throws as `lower` does.
template <scheduler Schedule>
GPIPE_COLD constexpr check_result check_schedule(const Schedule& schedule, int stages, int micro_batches,
                                            const recompute_choice& choice, const link* links, int link_count,
                                            int slots = rendezvous, send_mode mode = send_mode::synchronous,
                                            int coalesce = 1) {
  detail::require_admitted(schedule, stages, micro_batches);
  detail::require_links(stages, links, link_count);
  const int workers = schedule.workers(stages);
  detail::tick_index<Schedule> table(schedule, stages, micro_batches, coalesce);
  const detail::zeroed_array<bool> recomputed(stages * micro_batches);
  const detail::zeroed_array<int> in_flight(stages), worker_of(stages);
  for (int s = 0; s < stages; ++s) {
    flag_recomputed(table, choice, s, recomputed.data() + s * micro_batches);
    in_flight[s] = schedule.in_flight(stages, micro_batches, s);
    worker_of[s] = schedule.worker_of(stages, s);
  }
  if (std::int64_t{4} * micro_batches * (stages + link_count) + 2 * stages > (std::numeric_limits<int>::max)())
    detail::too_long(stages, micro_batches);
  // Each micro-batch has a forward, a recompute, both parts of backward, and both ends of a link's two channels. A
  // table with longer programs repeats an instruction, and the check finds this in the first `max_lines`.
  const int max_lines = 4 * micro_batches * (stages + link_count) + 2 * stages;
  const detail::zeroed_array<instruction> lines(max_lines);
  const detail::zeroed_array<program_view> programs(workers);
  int length = 0;
  for (int w = 0; w < workers; ++w) {
    programs[w].lines = lines.data() + length;
    const auto put = [&](const instruction& it) {
      if (length < max_lines) lines[length++] = it;
    };
    detail::lower_worker(table, recomputed.data(), links, link_count, w, put, mode);
    programs[w].length = static_cast<int>(lines.data() + length - programs[w].lines);
  }
  return check({stages, micro_batches, links, link_count, schedule.trains, recomputed.data(), in_flight.data(),
                worker_of.data()},
               programs.data(), workers, slots);
}

constexpr check_result check_schedule(schedule_choice chosen, int stages, int micro_batches,
                                      const recompute_choice& choice, const link* links, int link_count,
                                      int slots = rendezvous, send_mode mode = send_mode::synchronous,
                                      int coalesce = 1) {
  return check_schedule<schedule_choice>(chosen, stages, micro_batches, choice, links, link_count, slots, mode,
                                         coalesce);
}

}  // namespace gpipe
