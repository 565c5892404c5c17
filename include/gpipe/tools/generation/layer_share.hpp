#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/processes/collective_calls.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe::detail {

/// The layers of a generator that this process has: all layers, or in a job the layers of its stages. Values go to all
/// processes from the one that has them:
///
///     layers      0 1 2 | 3 4 | 5 6
///     rank          0   |  1  |  2     rank 2 chooses a token, which goes to all
///                      row   row
class layer_share {
 public:
  /// This process has all layers.
  layer_share() = default;
  /// `ranks`: [layer], the rank that has it.
  layer_share(process_group& job, std::vector<int> ranks) : job_(&job), ranks_(std::move(ranks)) {}

  bool alone() const { return job_ == nullptr; }
  int rank_of(int layer) const { return alone() ? 0 : ranks_[index(layer)]; }
  bool has_rank(int rank) const { return alone() || job_->rank() == rank; }
  bool has(int layer) const { return has_rank(rank_of(layer)); }

  /// Throws if another process makes another call.
  void agree(collective_kind kind, std::span<const agreed_value> values) const {
    if (!alone()) job_->agree(kind, values);
  }
  /// Runs the local part of a call. If it throws here, the call fails in all processes.
  template <class Call>
  void work(Call&& call) const {
    const collective_calls calls(job_);
    calls.together([&] {
      calls.working("generate");
      call();
    });
  }
  /// Sends bytes of rank `root` to all ranks. `tag` is the same everywhere.
  GPIPE_COLD void broadcast(void* bytes, std::size_t size, int root, std::uint64_t tag) const {
    if (alone()) return;
    try {
      job_->broadcast(bytes, size, root, tag);
    } catch (const interrupted&) {
      throw job_->recover();
    }
  }

 private:
  process_group* job_ = nullptr;
  std::vector<int> ranks_;
};

}  // namespace gpipe::detail
