#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/stage/bound_stage.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

// assumes: one kind of device
/// One of R copies of the pipeline: its stages with their own parameters, the channels between them, and its part of
/// each step's micro-batches. All replicas apply the same updates, so their parameters stay the same. In a job it has
/// only the stages of this process's workers.
class replica {
 public:
  using channel_list = std::vector<link_channels>;

  /// `ranks` lists the workers of this process, whose numbers are also their numbers in `wake_signals`. `longest`: the
  /// same replica of the longest length, whose memory this one uses.
  GPIPE_COLD replica(const device_functions& device, const network& net, const step_plan& plan, int number,
                     const rank_layout& ranks, worker_signals& wake_signals, std::byte arena_fill,
                     const link_choice& emulated, const replica* longest = nullptr)
      : number_(number),
        plan_(&plan),
        barrier_(wake_signals, ranks.count(number), ranks.number_here(number, ranks.first(number))) {
    for (int s = 0; s < plan.stages(); ++s) {
      const bool is_here = ranks.has_stage(number, s);
      stages_.push_back(is_here ? std::make_unique<bound_stage>(device, net, plan, s, arena_fill, number,
                                                                longest != nullptr ? &longest->stage(s) : nullptr)
                                : nullptr);
      maps_.push_back(is_here ? &stages_.back()->map() : nullptr);
    }
    std::vector<int> waiters;
    for (int w = 0; w < plan.workers(); ++w) waiters.push_back(ranks.number_here(number, w));
    // change: link emulation
    channels_ = make_link_channels(device, net, plan, wake_signals, emulated, waiters);
  }
  /// Finds every address, and sets up libraries.
  GPIPE_COLD void bind(const kernel_row* kernels, bool canary) {
    for (auto& stage : stages_)
      if (stage) stage->bind(maps_, kernels, canary);
  }

  int number() const { return number_; }
  /// A pass begins: copies the step, with this replica's part of the micro-batches.
  void begin(const step_context& whole) {
    step_ = whole;
    step_.first_micro_batch = number_ * plan_->micro_batches();
    step_.micro_batches = plan_->micro_batches();
  }
  const step_context& step() const { return step_; }

  /// Whether this process has the stage.
  bool has(int s) const { return stages_[detail::index(s)] != nullptr; }
  const std::vector<std::unique_ptr<bound_stage>>& stages() const { return stages_; }
  bound_stage& stage(int s) const { return *stages_[detail::index(s)]; }
  channel_list& channels() { return channels_; }
  /// For the replica's workers.
  gpipe::detail::barrier& barrier() { return barrier_; }

  /// The blocks of each stage; null for a stage of another process.
  const std::vector<const detail::arena_map*>& maps() const { return maps_; }
  /// The device queue of each stage: its memory is used in the order of this queue. Null: the stage is in host memory.
  GPIPE_COLD std::vector<const void*> queues() const {
    std::vector<const void*> found(stages_.size());
    for (std::size_t s = 0; s < stages_.size(); ++s)
      if (stages_[s]) found[s] = stages_[s]->context().queue();
    return found;
  }

  struct range {
    std::byte* begin;
    std::size_t bytes;
  };
  /// The following functions take a stage of this process. Its gradients: first of the parameters that it owns, and
  /// then of each tied use in the order of layers.
  GPIPE_COLD std::vector<range> gradient_ranges(int s) const {
    std::vector<range> found;
    stage(s).each_gradient(true, [&](std::size_t begin, std::size_t bytes) {
      found.push_back({stage(s).arena().data() + begin, bytes});
    });
    return found;
  }
  /// The partials of each layer that has some.
  GPIPE_COLD std::vector<detail::block_address> partials(int s) const {
    std::vector<detail::block_address> found;
    stage(s).statistics().each([&](const detail::block_address& block) { found.push_back(block); });
    return found;
  }
  void add(int s, dtype type, std::ptrdiff_t n, const std::byte* source, std::byte* target) const {
    stage(s).add(type, n, source, target);
  }
  void clear(int s, const range& cleared) const {
    stage(s).context().fill(static_cast<std::ptrdiff_t>(cleared.bytes), std::byte{0}, cleared.begin);
  }
  /// Waits until the device has done all its work.
  void finish(int s) const { stage(s).context().finish(); }

 private:
  int number_;
  const step_plan* plan_;
  std::vector<std::unique_ptr<bound_stage>> stages_;
  std::vector<const detail::arena_map*> maps_;
  channel_list channels_;
  step_context step_;
  gpipe::detail::barrier barrier_;
};

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
