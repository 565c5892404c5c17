#pragma once

#include <functional>
#include <vector>

#include <gpipe/plan/program/lower.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>

namespace gpipe {

/// What the workers of an executor share.
template <class Device>
struct worker_context {
  const network& net;
  const runtime_plan& plan;
  const optimizer_update<typename Device::context>& rule;
  all_reduce<Device>* sums;  ///< over replicas; null: there is one
  worker_signals& line;
  gpipe::barrier& barrier;            ///< of all workers here
  const step_context& step;  ///< of all replicas
  commit_decision& decision;
  std::vector<stage_report>& reports;  ///< of replica after replica
  const std::function<void(const instruction&)>& before;
  abroad* others = nullptr;  ///< processes of the job; null: alone

  /// What was told of the loss, summed over the call's micro-batches and those accumulated before.
  void sum_partials() const noexcept {
    decision.sum(net.row_of(net.loss_slot()), step);
  }
};

}  // namespace gpipe
