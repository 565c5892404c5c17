#pragma once

#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/custom.hpp>
#include <gpipe/plan/timetable/schedule_table.hpp>

namespace gpipe {

/// A table as a schedule for plans, which it must outlive. The table determines the numbers of stages and
/// micro-batches.
class table_schedule {
 public:
  GPIPE_COLD explicit table_schedule(schedule_table table)
      : table_(std::move(table)), schedule_(custom_schedule_from(table_)) {}
  table_schedule(const table_schedule&) = delete;
  table_schedule& operator=(const table_schedule&) = delete;

  const schedule_table& table() const { return table_; }
  const custom_schedule& schedule() const { return schedule_; }
  /// The options with this schedule.
  GPIPE_COLD plan_options chosen_in(plan_options o) const {
    o.schedule = schedule_kind::custom;
    o.custom_schedule = &schedule_;
    o.stages = table_.stages();
    o.micro_batches = table_.micro_batches();
    return o;
  }

 private:
  const schedule_table table_;
  const custom_schedule schedule_;
};

}  // namespace gpipe
