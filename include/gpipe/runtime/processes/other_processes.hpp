#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/decision_exchange.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>
#include <gpipe/runtime/processes/remote_tied_parameters.hpp>

namespace gpipe::detail {

/// The workers' view of the other processes of their job, which have other workers of the same plan. If there is only
/// one process, every call does nothing, so that a worker makes the same calls in both cases.
class other_processes {
 public:
  /// There are none.
  other_processes() = default;

  /// Makes the ends of channels between stages of this process and other processes.
  GPIPE_COLD void connect(process_group& job, const network& net, const step_plan& plan, replica_part& part) {
    queues_ = part.queues();
    ties_ = remote_tied_parameters(job, net, plan, part.maps(), queues_);
    decision_ = std::make_unique<decision_exchange>(job, net, plan);
    remote_links(job, net, plan, part.maps(), queues_).connect(part);
    job_ = &job;
  }

  bool joined() const { return job_ != nullptr; }
  /// This process begins `work`. Throws if another process has failed.
  void begin(wait_context work) const {
    if (job_ != nullptr) job_->begin(work);
  }
  /// Waits on the host for the device of a stage of this process, and for failures of other processes.
  void wait(int stage, wait_context wait) const {
    if (job_ == nullptr) return;
    if (const void* queue = queues_[detail::index(stage)]) job_->wait(queue, wait);
  }
  /// Every process contributes the values of its stages, and gets the values of all stages. One worker per process
  /// calls it.
  void exchange(gathered_values& values, bool commits) const {
    if (decision_) decision_->exchange(values, commits, ties_.senders());
  }
  remote_tied_parameters& ties() { return ties_; }

 private:
  process_group* job_ = nullptr;     // null: there is one process
  std::vector<const void*> queues_;  // [stage]
  remote_tied_parameters ties_;
  std::unique_ptr<decision_exchange> decision_;
};

}  // namespace gpipe::detail
