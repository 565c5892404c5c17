#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/program/program_run.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

#include <cstdint>
#include <limits>

namespace gpipe::detail {

[[noreturn]] inline void too_long(int stages, int micro_batches) {
  throw_error({"stages is ", stages, " and micro_batches is ", micro_batches,
               ": the programs have more lines than an int counts"},
              {"choose fewer"});
}

/// The programs that `lower` makes for all workers of a schedule, and the contents of a valid step.
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
      in_flight_[s] = schedule.in_flight(stages, micro_batches, s);
      worker_of_[s] = schedule.worker_of(stages, s);
    }
    int length = 0;
    for (int w = 0; w < workers(); ++w) {
      views_[w].lines = lines_.data() + length;
      const auto append = [&](const instruction& line) {
        if (length < max_lines_) lines_[length++] = line;
      };
      lower_worker(table_, recomputed_.data(), links, link_count, w, append, mode);
      views_[w].length = static_cast<int>(lines_.data() + length - views_[w].lines);
    }
  }

  constexpr int workers() const { return table_.schedule().workers(table_.stages()); }
  constexpr const program_view* views() const { return views_.data(); }
  constexpr tick_index<Schedule>& table() { return table_; }
  constexpr expected_step expected() const {
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

}  // namespace gpipe::detail
