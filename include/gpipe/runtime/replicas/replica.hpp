#pragma once

#include <memory>
#include <vector>

#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/transport/in_process/barrier.hpp>

namespace gpipe {

/// One of R copies of the pipeline: its stages, with parameters of their own that the same updates keep the same, the
/// wires between them, and its part of each step's micro-batches. In a job of processes only what one worker has is
/// here.
template <class Device>
class replica {
 public:
  using context = typename Device::context;
  using wires_type = std::vector<wire<typename Device::marker>>;

  /// Of all workers, which have the seats r K ... r K + K - 1; or of one (`only`), which has the only seat.
  GPIPE_ONCE replica(const network& net, const run_plan& plan, int number, int only, lifeline& line,
                     std::byte arena_fill, std::int64_t link_bytes_per_second)
      : number_(number),
        plan_(&plan),
        wires_(plan.links.size()),
        door_(line, only < 0 ? plan.workers() : 1, only < 0 ? number * plan.workers() : 0) {
    for (int s = 0; s < plan.stages(); ++s) {
      const bool here = only < 0 || plan.worker_of(s) == only;
      stages_.push_back(here ? std::make_unique<bound_stage<Device>>(net, plan, s, arena_fill, number) : nullptr);
      maps_.push_back(here ? &stages_.back()->map() : nullptr);
    }
    if (only < 0)
      wires_ = make_wires<typename Device::marker>(net, plan, line, link_bytes_per_second, number * plan.workers());
  }
  /// Resolves every address, and makes what libraries need.
  GPIPE_ONCE void bind(const kernel_row<context>* kernels, bool canary) {
    for (auto& stage : stages_)
      if (stage) stage->bind(maps_, kernels, canary);
  }

  int number() const { return number_; }
  /// Its part of a step that begins.
  void take(const step_state& whole) {
    step_ = whole;
    step_.first_micro_batch = number_ * plan_->micro_batches();
    step_.micro_batches = plan_->micro_batches();
  }
  const step_state& step() const { return step_; }

  /// The queues of the stages' devices, in whose order what lies in their memory is used; null where it is the host's.
  std::vector<const void*> queues() const {
    std::vector<const void*> found(stages_.size());
    if constexpr (queueing_context<context>)
      for (std::size_t s = 0; s < stages_.size(); ++s)
        if (stages_[s]) found[s] = &stages_[s]->device().queue();
    return found;
  }

  bool has(int s) const { return stages_[static_cast<std::size_t>(s)] != nullptr; }
  const std::vector<std::unique_ptr<bound_stage<Device>>>& stages() const { return stages_; }
  /// The blocks of each stage; null where it is not here.
  const std::vector<const detail::arena_map*>& maps() const { return maps_; }
  bound_stage<Device>& stage(int s) const { return *stages_[static_cast<std::size_t>(s)]; }
  wires_type& wires() { return wires_; }
  /// Where its workers meet.
  gate& door() { return door_; }

 private:
  int number_;
  const run_plan* plan_;
  std::vector<std::unique_ptr<bound_stage<Device>>> stages_;
  std::vector<const detail::arena_map*> maps_;
  wires_type wires_;
  step_state step_;
  gate door_;
};

}  // namespace gpipe
