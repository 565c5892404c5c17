#pragma once

#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>

namespace gpipe::detail {

/// The plan's programs of the workers of this process: for a pass that trains, and for one that only runs forward. All
/// replicas run the same programs.
class worker_programs {
 public:
  using list = std::vector<std::vector<instruction>>;  ///< [worker of a replica]

  GPIPE_COLD worker_programs(const step_plan& plan, const rank_layout& ranks) {
    for (int w = 0; w < plan.workers(); ++w) {
      if (!ranks.has_worker(ranks.replica(), w)) continue;
      training_.push_back(plan.programs[index(w)]);
      forward_.push_back(plan.forward_programs[index(w)]);
    }
  }
  const list& training() const { return training_; }
  const list& forward() const { return forward_; }

 private:
  list training_, forward_;
};

}  // namespace gpipe::detail
