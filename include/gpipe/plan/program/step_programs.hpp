#pragma once

#include <cstdint>
#include <limits>

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/program/program_run.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe {

namespace detail {

[[noreturn]] inline void too_long(int stages, int micro_batches) {
  throw_error({"stages is ", stages, " and micro_batches is ", micro_batches,
               ": the programs have more lines than an int counts"},
              {"choose fewer"});
}

/// The programs that `lower` makes for all workers of a schedule, and the contents of a valid step. Throws if the
/// schedule does not admit (stages, micro_batches), or a link does not exist.
template <scheduler Schedule>
class step_programs {
 public:
  GPIPE_COLD constexpr step_programs(const Schedule& schedule, int stages, int micro_batches,
                                     const recompute_choice& choice, const stage_link* links, int link_count,
                                     send_mode mode, int group_gradients = 1)
      : table_(admitted(schedule, stages, micro_batches), stages, micro_batches, group_gradients),
        links_(links),
        link_count_(link_count),
        recomputed_(stages * micro_batches),
        in_flight_(stages),
        worker_of_(stages),
        max_lines_(longest(stages, micro_batches, link_count)),
        lines_(max_lines_),
        views_(workers()) {
    require_links(stages, links, link_count);
    for (int s = 0; s < stages; ++s) {
      flag_recomputing(table_, choice, s, recomputed_.data() + s * micro_batches);
      worker_of_[s] = schedule.worker_of(stages, s);
    }
    int length = 0;
    for (int w = 0; w < workers(); ++w) {
      views_[w].lines = lines_.data() + length;
      const auto append = [&](const instruction& line) {
        if (length < max_lines_) lines_[length++] = line;
      };
      lower(table_, recomputed_.data(), links, link_count, w, append, mode);
      views_[w].length = static_cast<int>(lines_.data() + length - views_[w].lines);
    }
  }

  constexpr bool trains() const { return table_.schedule().trains; }
  constexpr int worker_of(int stage) const { return worker_of_[stage]; }
  constexpr int workers() const { return table_.schedule().workers(table_.stages()); }
  constexpr const program_view* views() const { return views_.data(); }
  constexpr tick_index<Schedule>& table() { return table_; }
  constexpr expected_step expected() const {
    for (int s = 0; s < table_.stages(); ++s)
      in_flight_[s] = table_.schedule().in_flight(table_.stages(), table_.micro_batches(), s);
    return {table_.stages(),    table_.micro_batches(), links_,           link_count_, table_.schedule().trains,
            recomputed_.data(), in_flight_.data(),      worker_of_.data()};
  }

 private:
  static constexpr const Schedule& admitted(const Schedule& schedule, int stages, int micro_batches) {
    require_admitted(schedule, stages, micro_batches);
    return schedule;
  }
  // Each micro-batch has a forward, a recompute, both parts of backward, and both ends of a link's two channels. A
  // table with longer programs repeats an instruction, and the check finds this in the first lines.
  static constexpr int longest(int stages, int micro_batches, int link_count) {
    if (std::int64_t{4} * micro_batches * (stages + link_count) + 2 * stages > (std::numeric_limits<int>::max)())
      too_long(stages, micro_batches);
    return 4 * micro_batches * (stages + link_count) + 2 * stages;
  }

  tick_index<Schedule> table_;
  const stage_link* links_;
  int link_count_;
  zeroed_array<bool> recomputed_;
  zeroed_array<int> in_flight_, worker_of_;
  int max_lines_;
  zeroed_array<instruction> lines_;
  zeroed_array<program_view> views_;
};

/// Assigns slots to the activations of a link and, if the schedule trains, to its gradients, by the ticks of a table.
/// Both arrays have one element per micro-batch. `late`: the further ticks that a slot is held, see `on_the_way`.
template <scheduler Schedule>
constexpr void assign_link_slots(tick_index<Schedule>& table, const stage_link& link, int late, int* stash,
                                 int* returned) {
  stash_slots(table, link.source, link.target, stash, late);
  if (table.schedule().trains && link.gradient) returned_slots(table, link.target, link.source, returned, late);
}

/// Runs the programs of all workers together over channels of `channel_slots` slots (or under `rendezvous`) and returns
/// the first fault. Programs without a fault run every (stage, micro-batch) forward and backward exactly once, each
/// after its inputs; never wait in a cycle; retire parameter gradients in ascending order and stay within the stash.
///
/// It needs one pass and accepts any programs, not only the ones that `lower` makes.
GPIPE_COLD constexpr check_result check(const expected_step& expected, const program_view* programs, int workers,
                                        int channel_slots = rendezvous) {
  require_links(expected.stages, expected.links, expected.link_count);
  return program_run(expected, programs, workers, channel_slots).run();
}

struct keep_no_programs {
  constexpr void operator()(const program_view*, int) const {}
};

/// The first fault of a plan's programs, run in the plan's slots. `copies` as in `link_slot_table`; `late` as in
/// `assign_link_slots`. `keep(programs, workers)` may copy the programs.
template <scheduler Schedule, class Keep = keep_no_programs>
GPIPE_COLD constexpr check_result check_planned(const Schedule& schedule, int stages, int micro_batches,
                                                const recompute_choice& choice, const stage_link* links, int link_count,
                                                int group_gradients, const link_slot_table& memory_slots, bool ties,
                                                const Keep& keep = {}) {
  const step_programs<Schedule> programs(schedule, stages, micro_batches, choice, links, link_count,
                                         send_mode::buffered, group_gradients);
  expected_step expected = programs.expected();
  expected.memory_slots = memory_slots;
  expected.ties = ties;
  keep(programs.views(), programs.workers());
  return check(expected, programs.views(), programs.workers());
}

/// A worker in a cycle: each waits in its cell for the next worker.
struct waiting_worker {
  int worker = -1, tick = -1;
  cell action{};

  constexpr bool operator==(const waiting_worker&) const = default;
};

/// Calls `sink(waiting_worker)` for each worker of a cycle in which a table's cells wait, however many slots there
/// are; for none if there is no cycle.
template <scheduler Schedule, class Sink>
GPIPE_COLD constexpr void find_cycle_of(const Schedule& schedule, int stages, int micro_batches,
                                        const stage_link* links, int link_count, Sink&& sink) {
  step_programs<Schedule> programs(schedule, stages, micro_batches, {}, links, link_count, send_mode::buffered);
  const zeroed_array<int> slot_numbers(link_count * micro_batches), copies(2 * link_count);
  for (int i = 0; i < link_count * micro_batches; ++i) slot_numbers[i] = i % micro_batches;
  for (int i = 0; i < 2 * link_count; ++i) copies[i] = micro_batches;
  expected_step expected = programs.expected();
  expected.in_flight = nullptr;
  expected.memory_slots = {slot_numbers.data(), slot_numbers.data(), copies.data()};
  program_run run(expected, programs.views(), programs.workers(), rendezvous);
  if (run.run().error != fault::deadlock) return;
  run.report_cycle([&](int worker, const instruction& action) {
    if (action.micro_batch < 0) return;  // at the end of a step
    const cell_ticks& ticks = programs.table().of(action.stage)[action.micro_batch];
    const bool back = action.kind == action_kind::receive_gradient || action.kind == action_kind::backward ||
                      action.kind == action_kind::backward_input;
    const int tick = back ? ticks.backward : ticks.forward;
    sink(waiting_worker{worker, tick, schedule.at(stages, micro_batches, worker, tick)});
  });
}

}  // namespace detail

/// Runs the programs that `lower` makes of a schedule as `detail::check` does. Throws as `step_programs` does.
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

constexpr check_result check_schedule(schedule_choice chosen, int stages, int micro_batches,
                                      const detail::recompute_choice& choice, const stage_link* links, int link_count,
                                      int channel_slots = detail::rendezvous,
                                      detail::send_mode mode = detail::send_mode::synchronous,
                                      int group_gradients = 1) {
  return check_schedule<schedule_choice>(chosen, stages, micro_batches, choice, links, link_count, channel_slots, mode,
                                         group_gradients);
}

}  // namespace gpipe
