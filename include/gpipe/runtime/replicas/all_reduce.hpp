#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe::detail {

// assumes: one parameter type
// assumes: replicas keep all parameters
// change: the sum over replicas
/// Sums the gradients of a stage over all replicas, elementwise and in ascending order of replicas, so that every
/// implementation gives the same bits; and gathers the partials that layers computed for each micro-batch. If replicas
/// keep shares, it also gathers the parameters that each has updated.
///
///     no shares   sum: a slice each | all get the sums | update                | ...
///     shares      sum: a share each |                  | update of the share   | ... next pass: gather the parameters
class all_reduce {
 public:
  virtual ~all_reduce() = default;

  /// Whether a call has started or advanced a reduction, and for how many nanoseconds the worker waited for others.
  struct progress {
    bool moved = false;
    std::int64_t waited = 0;

    explicit operator bool() const { return moved; }
  };

  /// Called by one worker per replica after the backward of its stage, for stages in the same order. If the pass
  /// commits, every replica gets the sums, or, with shares, only the sums of its share. Otherwise replica 0 gets all
  /// sums, and the others get zeros, to which the next call adds. Returns the nanoseconds that the worker waited for
  /// others. Throws if a wait fails.
  virtual std::int64_t sum(int replica, int stage, const wait_context& wait, bool commits) = 0;

  /// Called before `sum`, any number of times, when the gradients of the stage's layers from `layer` on are complete:
  /// may sum them early. It waits for others only if gradients leave the memory of their stage, which the next
  /// gradients need. Otherwise, in one process, it does nothing: no thread but the busy workers could sum.
  virtual progress begin(int replica, int stage, int layer, const wait_context& wait) = 0;
  /// Called before a pass by one worker per replica: copies the parameters of the other shares from the replicas that
  /// have updated them. It may fail and be called again, because this replica never updates these parameters. Returns
  /// the nanoseconds that the worker waited.
  virtual std::int64_t gather(int replica, int stage, const wait_context& wait) = 0;
  /// A call has failed: drops what `begin` has started.
  virtual void reset() {}
};

/// The all-reduce in one process: one worker of each replica sums a slice of the gradients in shared memory.
///
///     replica 0   ... backward | barrier | sums its slice into all | barrier | ...
///     replica 1   ... backward     |       sums its slice into all |       |
class shared_all_reduce final : public all_reduce {
 public:
  GPIPE_COLD shared_all_reduce(const device_functions& device, const network& net, const step_plan& plan,
                               worker_signals& wake_signals, const replica_list& replicas)
      : net_(&net), plan_(&plan), replicas_(&replicas) {
    for (int s = 0; s < plan.stages(); ++s) {
      std::vector<bucket>& leaving = leaving_.emplace_back();
      const memory_requirements& needs = plan.requirements(s);
      if (needs.gradients_leave)
        each_bucket(
            stage_view(net, plan.cut(), s), [&](const bucket& b) { leaving.push_back(b); }, needs.shares);
    }
    reset();
    for (int w = 0; w < plan.workers(); ++w)
      barriers_.push_back(std::make_unique<replica_barrier>(device, wake_signals, plan.replicas(), w, plan.workers()));
  }

  GPIPE_OUT_OF_LINE std::int64_t sum(int replica, int stage, const wait_context& wait, bool commits) override {
    return between_barriers(replica, stage, wait, [&](bound_stage& replica_stage) {
      if (replica_stage.gradients_leave()) {
        for (const bucket& b : leaving_[detail::index(stage)])
          if (b.lent && b.owner == replica) sum_bucket(replica_stage, stage, replica, b);
        next_of(replica, stage) = 0;
      } else if (commits && replica_stage.is_shared_out()) {
        sum_share(replica_stage, stage, replica);
      } else {
        replica_stage.each_gradient(!commits, [&](std::size_t begin, std::size_t bytes) {
          const auto edge = [&](int r) { return slice_begin(bytes, r, plan_->replicas()); };
          sum_slice(replica_stage, stage, begin + edge(replica), edge(replica + 1) - edge(replica), commits);
        });
      }
      replicas_->each([&](const auto& other_replica) {
        if (other_replica.number() != replica)
          replica_stage.statistics().copy_from(other_replica.stage(stage).statistics(), other_replica.step());
      });
    });
  }
  GPIPE_OUT_OF_LINE progress begin(int replica, int stage, int layer, const wait_context& wait) override {
    const std::vector<bucket>& buckets = leaving_[detail::index(stage)];
    progress result;
    for (std::size_t& next = next_of(replica, stage); next < buckets.size() && buckets[next].first >= layer; ++next) {
      const bucket& b = buckets[next];
      if (b.lent) continue;
      result.waited += between_barriers(replica, stage, wait, [&](bound_stage& replica_stage) {
        if (b.owner == replica) sum_bucket(replica_stage, stage, replica, b);
      });
      if (b.owner != replica) stage_of(replica, stage).clear_gradients(b);
      result.moved = true;
    }
    return result;
  }
  void reset() override { next_.assign(detail::index(plan_->replicas() * plan_->stages()), next_bucket{}); }

  GPIPE_OUT_OF_LINE std::int64_t gather(int replica, int stage, const wait_context&) override {
    const bound_stage& replica_stage = stage_of(replica, stage);
    replicas_->each([&](const auto& other_replica) {
      if (other_replica.number() == replica) return;
      const bound_stage& source = other_replica.stage(stage);
      const stage_share& share = source.share();
      replica_stage.context().copy(share.bytes, static_cast<const std::byte*>(source.parameters() + share.begin),
                                   replica_stage.parameters() + share.begin);
    });
    return 0;
  }

 private:
  // The workers with the same number in each replica wait for each other here.
  struct replica_barrier {
    gpipe::detail::barrier barrier;
    std::vector<device_marker> ready, summed;  // [replica]
    replica_barrier(const device_functions& device, worker_signals& wake_signals, int replicas, int first, int every)
        : barrier(wake_signals, replicas, first, every) {
      for (int r = 0; r < replicas; ++r) ready.emplace_back(device), summed.emplace_back(device);
    }
  };
  // On a separate cache line, because each worker writes the numbers of its stages.
  struct alignas(alignment) next_bucket {
    std::size_t number = 0;
  };
  std::size_t& next_of(int replica, int stage) {
    return next_[detail::index(replica * plan_->stages() + stage)].number;
  }

  // Waits for all replicas, calls `work(stage of the replica)`, and waits until all have done their work. Returns the
  // nanoseconds of the two waits.
  template <class Work>
  std::int64_t between_barriers(int replica, int stage, const wait_context& wait, const Work& work) {
    const int w = plan_->worker_of(stage), waiter = replica * plan_->workers() + w;
    replica_barrier& shared_barrier = *barriers_[detail::index(w)];
    bound_stage& replica_stage = stage_of(replica, stage);
    replica_stage.context().mark(shared_barrier.ready[detail::index(replica)]);
    const auto arrived = now_ns();
    shared_barrier.barrier.arrive(waiter, wait);
    const auto all_arrived = now_ns();
    for (auto& ready : shared_barrier.ready) replica_stage.context().await(ready);
    work(replica_stage);
    replica_stage.context().mark(shared_barrier.summed[detail::index(replica)]);
    const auto summed = now_ns();
    shared_barrier.barrier.arrive(waiter, wait);
    for (auto& other_summed : shared_barrier.summed) replica_stage.context().await(other_summed);
    return all_arrived - arrived + now_ns() - summed;
  }

  bound_stage& stage_of(int replica, int stage) const { return replicas_->at(replica).stage(stage); }

  void sum_slice(const bound_stage& summing_stage, int stage, std::size_t begin, std::size_t bytes,
                 bool commits) const {
    const auto part = [&](int r, std::size_t offset) { return stage_of(r, stage).arena().data() + begin + offset; };
    each_sum(summing_stage, bytes, part, [&](std::size_t offset, std::ptrdiff_t size, const std::byte* sum) {
      for (int r = 1; r < plan_->replicas(); ++r)
        if (commits) summing_stage.context().copy(size, sum, part(r, offset));
        else summing_stage.context().fill(size, std::byte{0}, part(r, offset));
    });
  }
  // The other replicas' gradients of the share are no longer needed.
  void sum_share(const bound_stage& summing_stage, int stage, int replica) const {
    const stage_share& share = summing_stage.share();
    sum_owned(summing_stage, replica, static_cast<std::size_t>(share.bytes),
              [&](int r, std::size_t offset) { return stage_of(r, stage).gradients() + share.begin + offset; });
  }
  void sum_bucket(const bound_stage& summing_stage, int stage, int replica, const bucket& b) const {
    sum_owned(summing_stage, replica, b.bytes,
              [&](int r, std::size_t offset) { return stage_of(r, stage).at(b.first).owned.gradients + offset; });
  }
  template <class Part>
  void sum_owned(const bound_stage& summing_stage, int replica, std::size_t bytes, const Part& part) const {
    each_sum(summing_stage, bytes, part, [&](std::size_t offset, std::ptrdiff_t size, const std::byte* sum) {
      if (replica > 0) summing_stage.context().copy(size, sum, part(replica, offset));
    });
  }
  // Sums in the first replica, in pieces that stay in the cache until `sink(offset, size, sum)` has copied them.
  // `part(r, offset)`: the address of the gradients in replica r, at an offset in bytes.
  template <class Part, class Sink>
  void each_sum(const bound_stage& summing_stage, std::size_t bytes, const Part& part, const Sink& sink) const {
    constexpr std::size_t max_bytes = 1 << 16;
    for (std::size_t offset = 0; offset < bytes; offset += max_bytes) {
      const auto size = static_cast<std::ptrdiff_t>((std::min)(max_bytes, bytes - offset));
      std::byte* const sum = part(0, offset);
      for (int r = 1; r < plan_->replicas(); ++r)
        summing_stage.add(net_->type, size / static_cast<std::ptrdiff_t>(bytes_of(net_->type)), part(r, offset), sum);
      sink(offset, size, static_cast<const std::byte*>(sum));
    }
  }

  const network* net_;
  const step_plan* plan_;
  const replica_list* replicas_;
  std::vector<std::unique_ptr<replica_barrier>> barriers_;  // [worker of a replica]
  std::vector<std::vector<bucket>> leaving_;                // [stage]: its buckets of gradients that leave its memory
  std::vector<next_bucket> next_;  // [replica][stage]: the first in `leaving_` that is not summed
};

}  // namespace gpipe::detail
