#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

/// Sends bytes that one process of the job has to all processes. Every process makes the same calls in the same order.
/// One process alone has all bytes already, so each call returns at once.
class broadcast {
 public:
  /// `job` null: there is one process.
  broadcast(const step_plan& plan, process_group* job) : plan_(plan), job_(job), ranks_(plan, job) {}

  bool alone() const { return job_ == nullptr; }

  /// Sends bytes of the process that has this stage. `call_hash` must be the same everywhere, so that a mismatch is
  /// found.
  void from_stage(int replica, int stage, void* bytes, std::size_t size, std::uint64_t call_hash = 0) const {
    if (job_ != nullptr) job_->broadcast(bytes, size, ranks_.rank_of_stage(replica, stage), call_hash);
  }
  /// Sends bytes of the process that has a replica's worker.
  void from_worker(int replica, int worker, void* bytes, std::size_t size, std::uint64_t call_hash = 0) const {
    if (job_ != nullptr) job_->broadcast(bytes, size, ranks_.rank_of(replica, worker), call_hash);
  }
  /// Merges words of a stage, each of which one replica has and the others have as zero. `get()` returns the words of
  /// this process, and `put(words)` takes the merged ones.
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
