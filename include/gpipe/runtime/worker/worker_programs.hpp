#pragma once

#include <vector>

#include <gpipe/plan/program/lower.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>

namespace gpipe::detail {

/// What the workers that are here do in a step, and in a pass that only runs forward. Replicas do the same.
class programs {
 public:
  using list = std::vector<std::vector<instruction>>;  ///< [worker of a replica]

  GPIPE_ONCE programs(const run_plan& plan, const seating& here) {
    for (int w = 0; w < plan.workers(); ++w) {
      if (!here.has_worker(here.replica(), w)) continue;
      training_.push_back(lowered(plan, plan.schedule, w));
      evaluating_.push_back(lowered(plan, plan.schedule.forwards(), w));
    }
  }
  const list& training() const { return training_; }
  const list& evaluating() const { return evaluating_; }

 private:
  static std::vector<instruction> lowered(const run_plan& plan, schedule_choice schedule, int worker) {
    std::vector<instruction> lines;
    lower(
        schedule, plan.stages(), plan.micro_batches(), plan.recompute(), plan.links.data(),
        static_cast<int>(plan.links.size()), worker, [&](const instruction& i) { lines.push_back(i); },
        send_mode::buffered, schedule.trains ? plan.coalesce : 1);
    return lines;
  }

  list training_, evaluating_;
};

}  // namespace gpipe::detail
