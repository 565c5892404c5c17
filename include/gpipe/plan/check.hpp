#pragma once

#include <gpipe/core/recompute.hpp>
#include <gpipe/plan/action.hpp>
#include <gpipe/plan/execution.hpp>
#include <gpipe/plan/program.hpp>
#include <gpipe/plan/scratch.hpp>
#include <gpipe/plan/verdict.hpp>

#include <cstdint>
#include <limits>

namespace gpipe {

/// Runs the programs of all workers together over channels of `slots` slots (or under `rendezvous`) and tells the
/// first fault. Programs without one run every (stage, micro-batch) forward and backward exactly once, each after what
/// it needs; never wait in a circle; retire parameter gradients in ascending order and keep within the stash.
///
/// One pass. Under the compilers' default limits constant evaluation admits 16 stages by 128 micro-batches, or 128
/// by 8; larger ones are checked when a run starts (128 by 512 in 40 ms).
GPIPE_ONCE constexpr verdict check(const programs_terms& terms, const program_view* programs, int workers,
                                   int slots = rendezvous) {
  detail::require_links(terms.stages, terms.links, terms.link_count);
  return detail::execution(terms, programs, workers, slots).run();
}

namespace detail {

[[noreturn]] inline void too_long(int stages, int micro_batches) {
  refuse({"the programs of ", stages, " stages for ", micro_batches, " micro-batches are longer than can be counted"},
         {"choose fewer"});
}

}  // namespace detail

/// The same for the programs that `lower` makes of a schedule. Throws what `lower` throws.
template <scheduler Schedule>
GPIPE_ONCE constexpr verdict check_schedule(Schedule, int stages, int micro_batches, recompute_mode mode,
                                            const link* links, int link_count, int slots = rendezvous) {
  detail::require_admitted<Schedule>(stages, micro_batches);
  detail::require_links(stages, links, link_count);
  const int workers = Schedule::workers(stages);
  const detail::scratch<int> last(stages), in_flight(stages), worker_of(stages);
  for (int s = 0; s < stages; ++s) {
    last[s] = Schedule::forwarded_last(stages, micro_batches, s);
    in_flight[s] = Schedule::in_flight(stages, micro_batches, s);
    worker_of[s] = Schedule::worker_of(stages, s);
  }
  if (std::int64_t{4} * micro_batches * (stages + link_count) + 2 * stages > (std::numeric_limits<int>::max)())
    detail::too_long(stages, micro_batches);
  // Of each micro-batch: forward, recompute, both parts of backward, and both ends of a link's two channels.
  const detail::scratch<instruction> lines(4 * micro_batches * (stages + link_count) + 2 * stages);
  const detail::scratch<program_view> programs(workers);
  int length = 0;
  for (int w = 0; w < workers; ++w) {
    programs[w].lines = lines.data() + length;
    detail::lower_admitted<Schedule>(stages, micro_batches, mode, links, link_count, w,
                                     [&](const instruction& it) { lines[length++] = it; });
    programs[w].length = static_cast<int>(lines.data() + length - programs[w].lines);
  }
  return check({stages, micro_batches, links, link_count, Schedule::trains, mode, last.data(), in_flight.data(),
                worker_of.data()},
               programs.data(), workers, slots);
}

constexpr verdict check_schedule(schedule_kind kind, int stages, int micro_batches, recompute_mode mode,
                                 const link* links, int link_count, int slots = rendezvous) {
  return with_schedule(kind, [&](auto schedule) {
    return check_schedule(schedule, stages, micro_batches, mode, links, link_count, slots);
  });
}

}  // namespace gpipe
