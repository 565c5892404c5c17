#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/plan/step_plan.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

// assumes: one replica per process
/// The process of each worker of a plan with R replicas of K workers. Without a job, one process has all workers. In a
/// job, each process has some workers of one replica: the workers whose devices name the process, or, if no device
/// names a process, consecutive workers, as evenly as possible.
///
///     R = 2, K = 3, 4 ranks     replica 0    rank 0: workers 0, 1    rank 1: worker 2
///                               replica 1    rank 2: workers 0, 1    rank 3: worker 2
class rank_layout {
 public:
  /// `job` null: there is one process.
  rank_layout(const step_plan& plan, const process_group* job)
      : plan_(plan),
        rank_(job == nullptr ? -1 : job->rank()),
        ranks_(job == nullptr ? 1 : job->ranks()),
        processes_per_replica_(
            plan.processes_of_workers.empty()
                ? (std::max)(1, ranks_ / plan.replicas())
                : 1 + *std::max_element(plan.processes_of_workers.begin(), plan.processes_of_workers.end())) {}

  /// Whether the number of ranks fits the plan: the same number for each replica, as many as its devices name, and at
  /// most one rank per worker. True without a job.
  bool fits() const {
    return rank_ < 0 ||
           (ranks_ == plan_.replicas() * processes_per_replica_ && processes_per_replica_ <= plan_.workers());
  }

  /// The rank of the process that has a worker, or a stage, of a replica; 0 without a job.
  int rank_of(int replica, int worker) const {
    if (rank_ < 0) return 0;
    const std::vector<int>& processes = plan_.processes_of_workers;
    return replica * processes_per_replica_ +
           (processes.empty() ? static_cast<int>(std::int64_t{worker} * processes_per_replica_ / plan_.workers())
                              : processes[static_cast<std::size_t>(worker)]);
  }
  int rank_of_stage(int replica, int stage) const { return rank_of(replica, plan_.worker_of(stage)); }

  /// The number of workers of all replicas in this process.
  int count() const {
    int workers = 0;
    for (int r = 0; r < plan_.replicas(); ++r) workers += count(r);
    return workers;
  }
  /// The numbers of workers in all processes of the job: [rank].
  GPIPE_COLD std::vector<int> counts() const {
    std::vector<int> workers(static_cast<std::size_t>(ranks_));
    for (int r = 0; r < plan_.replicas(); ++r)
      for (int w = 0; w < plan_.workers(); ++w) ++workers[static_cast<std::size_t>(rank_of(r, w))];
    return workers;
  }
  /// The number of a replica's workers in this process, and the first of these workers; K: there is none.
  int count(int replica) const {
    int workers = 0;
    for (int w = 0; w < plan_.workers(); ++w) workers += has_worker(replica, w);
    return workers;
  }
  int first(int replica) const {
    int w = 0;
    while (w < plan_.workers() && !has_worker(replica, w)) ++w;
    return w;
  }
  /// The first replica that has workers in this process: the only one in a job.
  int replica() const { return rank_ < 0 ? 0 : rank_ / processes_per_replica_; }
  /// Whether this process has a worker, any worker, or a stage of a replica.
  bool has_worker(int replica, int worker) const { return rank_ < 0 || rank_of(replica, worker) == rank_; }
  bool has_part(int replica) const { return rank_ < 0 || rank_ / processes_per_replica_ == replica; }
  bool has_stage(int replica, int stage) const { return has_worker(replica, plan_.worker_of(stage)); }
  /// The number of a worker among this process's workers of all replicas, from 0; -1: it is in another process.
  int number_here(int replica, int worker) const {
    if (!has_worker(replica, worker)) return -1;
    int number = rank_ < 0 ? replica * plan_.workers() : 0;
    for (int w = 0; w < worker; ++w) number += has_worker(replica, w);
    return number;
  }
  /// Whether each of `layers` layers runs in this process: [layer].
  GPIPE_COLD std::vector<bool> layers_here(int layers) const {
    std::vector<bool> local(static_cast<std::size_t>(layers));
    for (int l = 0; l < layers; ++l) local[static_cast<std::size_t>(l)] = has_stage(replica(), plan_.cut().stage_of(l));
    return local;
  }

 private:
  const step_plan& plan_;
  int rank_, ranks_;  // rank -1: there is one process
  int processes_per_replica_;
};

/// Copies bytes from one process of the job to all others. Every process makes the same calls in the same order.
/// Without a job, the calls do nothing.
class broadcast {
 public:
  /// `job` null: there is one process.
  broadcast(const step_plan& plan, process_group* job) : plan_(plan), job_(job), ranks_(plan, job) {}

  bool alone() const { return job_ == nullptr; }

  /// Copies `size` bytes from the process that has this stage to `bytes` in all others. `call_hash` identifies the
  /// call: if it differs between processes, the transport throws.
  void from_stage(int replica, int stage, void* bytes, std::size_t size, std::uint64_t call_hash = 0) const {
    if (job_ != nullptr) job_->broadcast(bytes, size, ranks_.rank_of_stage(replica, stage), call_hash);
  }
  /// The same from the process that has this worker of a replica.
  void from_worker(int replica, int worker, void* bytes, std::size_t size, std::uint64_t call_hash = 0) const {
    if (job_ != nullptr) job_->broadcast(bytes, size, ranks_.rank_of(replica, worker), call_hash);
  }
  /// Merges 64-bit words of a stage, each of which is zero in all replicas but one. `get()` returns the words of this
  /// process, and `put(words)` receives the merged words.
  template <class Get, class Put>
  void merge(int stage, Get&& get, Put&& put) const {
    if (job_ == nullptr) return;
    const std::vector<std::uint64_t> local = get();
    std::vector<std::uint64_t> merged(local.size());
    for (int r = 0; r < plan_.replicas() && !local.empty(); ++r) {
      auto words = local;
      from_stage(r, stage, words.data(), words.size() * sizeof(words[0]));
      for (std::size_t i = 0; i < merged.size(); ++i) merged[i] |= words[i];
    }
    put(merged);
  }

 private:
  const step_plan& plan_;
  process_group* job_;
  rank_layout ranks_;
};

}  // namespace gpipe::detail
