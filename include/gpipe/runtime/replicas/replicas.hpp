#pragma once

#include <memory>
#include <vector>

#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/runtime/step/run_options.hpp>

namespace gpipe {

/// All replicas, or what one process has of them.
template <class Device>
class replica_list {
 public:
  /// Makes their stages, and binds them.
  GPIPE_ONCE void make(const network& net, const run_plan& plan, const seating& here, lifeline& line,
                       const run_options& options, const kernel_row<typename Device::context>* kernels) {
    for (int r = 0; r < plan.replicas(); ++r) {
      auto& it = all_.emplace_back();
      if (!here.has_part(r)) continue;
      it = std::make_unique<replica<Device>>(net, plan, r, here.only(), line, options.arena_fill,
                                             options.link_bytes_per_second);
      it->bind(kernels, options.canary);
    }
  }

  int count() const { return static_cast<int>(all_.size()); }
  /// One that is here.
  replica<Device>& at(int number) const { return *all_[static_cast<std::size_t>(number)]; }

  template <class Call>
  void each(Call&& call) const {
    for (const auto& it : all_)
      if (it) call(*it);
  }
  /// A stage, in each replica.
  template <class Call>
  void each_like(int s, Call&& call) const {
    for (const auto& it : all_)
      if (it && it->has(s)) call(it->stage(s));
  }
  template <class Call>
  void each_stage(Call&& call) const {
    each([&](const replica<Device>& it) {
      for (const auto& stage : it.stages())
        if (stage) call(*stage);
    });
  }

 private:
  std::vector<std::unique_ptr<replica<Device>>> all_;  // [replica], null where none of it is here
};

}  // namespace gpipe
