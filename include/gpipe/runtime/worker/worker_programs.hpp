#pragma once

#include <vector>

#include <gpipe/plan/program/lower.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>

namespace gpipe::detail {

/// The programs of the workers that are here: for a pass that trains, and for one that only runs forward. All replicas
/// run the same programs.
class worker_programs {
 public:
  using list = std::vector<std::vector<instruction>>;  ///< [worker of a replica]

  GPIPE_COLD worker_programs(const runtime_plan& plan, const rank_layout& here) {
    for (int w = 0; w < plan.workers(); ++w) {
      if (!here.has_worker(here.replica(), w)) continue;
      training_.push_back(lowered(plan, plan.schedule, w));
      forward_.push_back(lowered(plan, plan.schedule.forwards(), w));
    }
  }
  const list& training() const { return training_; }
  const list& forward() const { return forward_; }

 private:
  static std::vector<instruction> lowered(const runtime_plan& plan, schedule_choice schedule, int worker) {
    std::vector<instruction> program;
    lower(
        schedule, plan.stages(), plan.micro_batches(), plan.recompute(), plan.links.data(),
        static_cast<int>(plan.links.size()), worker, [&](const instruction& i) { program.push_back(i); },
        send_mode::buffered, schedule.trains ? plan.coalesce : 1);
    return program;
  }

  list training_, forward_;
};

}  // namespace gpipe::detail
