#pragma once

#include <functional>
#include <vector>

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
#include <gpipe/transport/in_process/barrier.hpp>

namespace gpipe::detail {

/// The objects that the workers of an executor share.
struct worker_context {
  const device_functions& device;
  const network& net;
  const step_plan& plan;
  const optimizer_update& rule;
  all_reduce* sums;  ///< over replicas; null: there is one replica
  worker_signals& wake_signals;
  gpipe::detail::barrier& barrier;  ///< of all workers of this process
  const step_context& step;         ///< of all replicas
  commit_decision& decision;
  std::vector<stage_report>& reports;  ///< [replica][stage]
  // change: a hook between backward and update
  const std::function<void(const instruction&)>& before;
  double average_share;  ///< of the new weights in their moving average; 0: there is none
  other_processes& processes;

  /// Sums the partials of the losses over the call's micro-batches and those accumulated before.
  void sum_partials() const noexcept { decision.sum(step); }
};

}  // namespace gpipe::detail
