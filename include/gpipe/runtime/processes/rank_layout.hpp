#pragma once

#include <cstddef>
#include <vector>

#include <gpipe/plan/step_plan.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

/// Which of a plan's workers, R replicas of K workers each, are in this process: all, or in a job the one of its rank.
/// Replica r has the ranks r K ... r K + K - 1.
class rank_layout {
 public:
  /// `job` null: there is one process.
  rank_layout(const step_plan& plan, const process_group* job)
      : plan_(plan), rank_(job == nullptr ? -1 : job->rank()) {}

  /// The number of workers in this process.
  int count() const { return rank_ < 0 ? plan_.replicas() * plan_.workers() : 1; }
  /// The replica of the only worker here; 0: all are here.
  int replica() const { return rank_ < 0 ? 0 : rank_ / plan_.workers(); }
  /// The number of the only worker here in its replica; -1: all are here.
  int only() const { return rank_ < 0 ? -1 : rank_ % plan_.workers(); }

  bool has_worker(int replica, int worker) const { return rank_ < 0 || rank_ == replica * plan_.workers() + worker; }
  bool has_part(int replica) const { return rank_ < 0 || rank_ / plan_.workers() == replica; }
  bool has_stage(int replica, int stage) const { return has_worker(replica, plan_.worker_of(stage)); }
  /// Whether a layer runs here, in any replica: [layer].
  GPIPE_COLD std::vector<bool> layers_here(int layers) const {
    std::vector<bool> all(static_cast<std::size_t>(layers));
    for (int l = 0; l < layers; ++l)
      all[static_cast<std::size_t>(l)] = rank_ < 0 || only() == plan_.worker_of(plan_.cut().stage_of(l));
    return all;
  }

 private:
  const step_plan& plan_;
  int rank_;  // -1: there is one process
};

}  // namespace gpipe::detail
