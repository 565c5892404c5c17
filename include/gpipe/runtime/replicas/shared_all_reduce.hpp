#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/gradient_buckets.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/replicas/replica_list.hpp>

namespace gpipe::detail {

/// The all-reduce of one process: a worker of each replica sums a slice in shared memory.
///
///     replica 0   ... backward | barrier | sums its slice into all | barrier | ...
///     replica 1   ... backward     |       sums its slice into all |       |
template <class Device>
class shared_all_reduce final : public all_reduce {
 public:
  GPIPE_COLD shared_all_reduce(const network& net, const step_plan& plan, worker_signals& wake_signals,
                               const replica_list<Device>& replicas)
      : net_(&net), plan_(&plan), replicas_(&replicas) {
    for (int w = 0; w < plan.workers(); ++w)
      barriers_.push_back(std::make_unique<replica_barrier>(wake_signals, plan.replicas(), w, plan.workers()));
  }

  GPIPE_OUT_OF_LINE std::int64_t sum(int replica, int stage, const wait_context& what, bool commits) override {
    const int w = plan_->worker_of(stage), waiter = replica * plan_->workers() + w;
    replica_barrier& at = *barriers_[detail::index(w)];
    bound_stage<Device>& mine = in(replica, stage);
    mine.context().mark(at.ready[detail::index(replica)]);
    const auto arrived = now_ns();
    at.barrier.arrive(waiter, what);
    const auto all_arrived = now_ns();
    for (auto& ready : at.ready) mine.context().await(ready);
    if (commits && mine.is_shared_out()) {
      sum_share(mine, stage, replica);
    } else {
      mine.each_gradient(!commits, [&](std::size_t begin, std::size_t bytes) {
        const auto edge = [&](int of) { return slice_begin(bytes, of, plan_->replicas()); };
        sum_slice(mine, stage, begin + edge(replica), edge(replica + 1) - edge(replica), commits);
      });
    }
    replicas_->each([&](const auto& it) {
      if (it.number() != replica) mine.statistics().copy_from(it.stage(stage).statistics(), it.step());
    });
    mine.context().mark(at.summed[detail::index(replica)]);
    const auto summed = now_ns();
    at.barrier.arrive(waiter, what);
    for (auto& summed_there : at.summed) mine.context().await(summed_there);
    return all_arrived - arrived + now_ns() - summed;
  }

  GPIPE_OUT_OF_LINE void gather(int replica, int stage, const wait_context&) override {
    const bound_stage<Device>& mine = in(replica, stage);
    replicas_->each([&](const auto& it) {
      if (it.number() == replica) return;
      const bound_stage<Device>& other = it.stage(stage);
      const stage_share& its = other.share();
      mine.context().copy(its.bytes, static_cast<const std::byte*>(other.parameters() + its.begin),
                          mine.parameters() + its.begin);
    });
  }

 private:
  // The workers with the same number in each replica wait for each other here.
  struct replica_barrier {
    gpipe::detail::barrier barrier;
    std::vector<typename Device::marker> ready, summed;  // [replica]
    replica_barrier(worker_signals& wake_signals, int replicas, int first, int every)
        : barrier(wake_signals, replicas, first, every),
          ready(detail::index(replicas)),
          summed(detail::index(replicas)) {}
  };
  bound_stage<Device>& in(int replica, int stage) const { return replicas_->at(replica).stage(stage); }

  void sum_slice(const bound_stage<Device>& by, int stage, std::size_t begin, std::size_t bytes, bool commits) const {
    each_sum(by, stage, begin, bytes, [&](std::size_t at, std::ptrdiff_t some, const std::byte* sum) {
      for (int r = 1; r < plan_->replicas(); ++r) {
        std::byte* const other = in(r, stage).arena().data() + at;
        if (commits) by.context().copy(some, sum, other);
        else by.context().fill(some, std::byte{0}, other);
      }
    });
  }
  // The other replicas' parts of it are left as they are.
  void sum_share(const bound_stage<Device>& by, int stage, int replica) const {
    const stage_share& its = by.share();
    each_sum(by, stage, by.flat_bytes() + static_cast<std::size_t>(its.begin), static_cast<std::size_t>(its.bytes),
             [&](std::size_t at, std::ptrdiff_t some, const std::byte* sum) {
               if (replica > 0) by.context().copy(some, sum, by.arena().data() + at);
             });
  }
  // Sums in the first replica, in pieces that stay in the cache until `sink(at, bytes, sum)` has copied them.
  template <class Sink>
  void each_sum(const bound_stage<Device>& by, int stage, std::size_t begin, std::size_t bytes,
                const Sink& sink) const {
    constexpr std::size_t piece = 1 << 16;
    for (std::size_t at = begin; at < begin + bytes; at += piece) {
      const auto some = static_cast<std::ptrdiff_t>((std::min)(piece, begin + bytes - at));
      std::byte* const sum = in(0, stage).arena().data() + at;
      for (int r = 1; r < plan_->replicas(); ++r)
        by.add(net_->type, some / static_cast<std::ptrdiff_t>(bytes_of(net_->type)), in(r, stage).arena().data() + at,
               sum);
      sink(at, some, static_cast<const std::byte*>(sum));
    }
  }

  const network* net_;
  const step_plan* plan_;
  const replica_list<Device>* replicas_;
  std::vector<std::unique_ptr<replica_barrier>> barriers_;  // [worker of a replica]
};

}  // namespace gpipe::detail
