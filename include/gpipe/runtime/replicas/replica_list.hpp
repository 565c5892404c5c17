#pragma once

#include <memory>
#include <vector>

#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/runtime/step/training_options.hpp>

namespace gpipe::detail {

/// All replicas, or the part of them that is in this process.
class replica_list {
 public:
  /// Makes and binds their stages. `longest`: the replicas of the longest length, whose memory these use; null: none.
  GPIPE_COLD void make(const device_functions& device, const network& net, const step_plan& plan,
                       const rank_layout& ranks, worker_signals& wake_signals, const training_options& options,
                       const kernel_row* kernels, const replica_list* longest = nullptr) {
    for (int r = 0; r < plan.replicas(); ++r) {
      auto& added = replicas_.emplace_back();
      if (!ranks.has_part(r)) continue;
      added = std::make_unique<replica>(device, net, plan, r, ranks, wake_signals, options.arena_fill,
                                        // change: link emulation
                                        options.link_bytes_per_second, longest != nullptr ? &longest->at(r) : nullptr);
      added->bind(kernels, options.canary);
    }
  }

  int count() const { return static_cast<int>(replicas_.size()); }
  /// A replica that is in this process.
  replica& at(int number) const { return *replicas_[detail::index(number)]; }

  template <class Call>
  void each(Call&& call) const {
    for (const auto& replica : replicas_)
      if (replica) call(*replica);
  }
  /// Calls `call(stage)` for stage s of each replica.
  template <class Call>
  void each_copy_of(int s, Call&& call) const {
    for (const auto& replica : replicas_)
      if (replica && replica->has(s)) call(replica->stage(s));
  }
  template <class Call>
  void each_stage(Call&& call) const {
    each([&](const replica& replica) {
      for (const auto& stage : replica.stages())
        if (stage) call(*stage);
    });
  }

 private:
  std::vector<std::unique_ptr<replica>> replicas_;  // [replica], null if no part of it is in this process
};

}  // namespace gpipe::detail
