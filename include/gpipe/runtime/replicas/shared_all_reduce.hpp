#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/gradient_buckets.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/replicas/replica_list.hpp>

namespace gpipe::detail {

/// The all-reduce of one process: a worker of each replica sums a slice in shared memory.
///
///     replica 0   ... backward | barrier | sums its slice into all | barrier | ...
///     replica 1   ... backward     |       sums its slice into all |       |
class shared_all_reduce final : public all_reduce {
 public:
  GPIPE_COLD shared_all_reduce(const device_functions& device, const network& net, const step_plan& plan,
                               worker_signals& wake_signals, const replica_list& replicas)
      : net_(&net), plan_(&plan), replicas_(&replicas) {
    for (int s = 0; s < plan.stages(); ++s) {
      std::vector<bucket>& all = leaving_.emplace_back();
      const memory_requirements& needs = plan.requirements(s);
      if (needs.gradients_leave)
        each_bucket(
            stage_view(net, plan.cut(), s), [&](const bucket& b) { all.push_back(b); }, needs.shares);
    }
    reset();
    for (int w = 0; w < plan.workers(); ++w)
      barriers_.push_back(std::make_unique<replica_barrier>(device, wake_signals, plan.replicas(), w, plan.workers()));
  }

  GPIPE_OUT_OF_LINE std::int64_t sum(int replica, int stage, const wait_context& what, bool commits) override {
    return together(replica, stage, what, [&](bound_stage& mine) {
      if (mine.gradients_leave()) {
        for (const bucket& b : leaving_[detail::index(stage)])
          if (b.lent && b.owner == replica) sum_bucket(mine, stage, replica, b);
        next_of(replica, stage) = 0;
      } else if (commits && mine.is_shared_out()) {
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
    });
  }
  GPIPE_OUT_OF_LINE progress begin(int replica, int stage, int layer, const wait_context& what) override {
    const std::vector<bucket>& all = leaving_[detail::index(stage)];
    progress found;
    for (std::size_t& next = next_of(replica, stage); next < all.size() && all[next].first >= layer; ++next) {
      const bucket& b = all[next];
      if (b.lent) continue;
      found.waited += together(replica, stage, what, [&](bound_stage& mine) {
        if (b.owner == replica) sum_bucket(mine, stage, replica, b);
      });
      if (b.owner != replica) in(replica, stage).clear_gradients(b);
      found.moved = true;
    }
    return found;
  }
  void reset() override { next_.assign(detail::index(plan_->replicas() * plan_->stages()), next_bucket{}); }

  GPIPE_OUT_OF_LINE std::int64_t gather(int replica, int stage, const wait_context&) override {
    const bound_stage& mine = in(replica, stage);
    replicas_->each([&](const auto& it) {
      if (it.number() == replica) return;
      const bound_stage& other = it.stage(stage);
      const stage_share& its = other.share();
      mine.context().copy(its.bytes, static_cast<const std::byte*>(other.parameters() + its.begin),
                          mine.parameters() + its.begin);
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
  // On a cache line of its own: each worker writes its stages'.
  struct alignas(alignment) next_bucket {
    std::size_t number = 0;
  };
  std::size_t& next_of(int replica, int stage) {
    return next_[detail::index(replica * plan_->stages() + stage)].number;
  }

  // Calls `work(the replica's stage)` when all replicas have come here, and returns when all have done it. Returns for
  // how many nanoseconds it waited.
  template <class Work>
  std::int64_t together(int replica, int stage, const wait_context& what, const Work& work) {
    const int w = plan_->worker_of(stage), waiter = replica * plan_->workers() + w;
    replica_barrier& at = *barriers_[detail::index(w)];
    bound_stage& mine = in(replica, stage);
    mine.context().mark(at.ready[detail::index(replica)]);
    const auto arrived = now_ns();
    at.barrier.arrive(waiter, what);
    const auto all_arrived = now_ns();
    for (auto& ready : at.ready) mine.context().await(ready);
    work(mine);
    mine.context().mark(at.summed[detail::index(replica)]);
    const auto summed = now_ns();
    at.barrier.arrive(waiter, what);
    for (auto& summed_there : at.summed) mine.context().await(summed_there);
    return all_arrived - arrived + now_ns() - summed;
  }

  bound_stage& in(int replica, int stage) const { return replicas_->at(replica).stage(stage); }

  void sum_slice(const bound_stage& by, int stage, std::size_t begin, std::size_t bytes, bool commits) const {
    const auto part = [&](int r, std::size_t at) { return in(r, stage).arena().data() + begin + at; };
    each_sum(by, bytes, part, [&](std::size_t at, std::ptrdiff_t some, const std::byte* sum) {
      for (int r = 1; r < plan_->replicas(); ++r)
        if (commits) by.context().copy(some, sum, part(r, at));
        else by.context().fill(some, std::byte{0}, part(r, at));
    });
  }
  // The other replicas' gradients of it are not needed any more.
  void sum_share(const bound_stage& by, int stage, int replica) const {
    const stage_share& its = by.share();
    sum_owned(by, replica, static_cast<std::size_t>(its.bytes),
              [&](int r, std::size_t at) { return in(r, stage).gradients() + its.begin + at; });
  }
  void sum_bucket(const bound_stage& by, int stage, int replica, const bucket& b) const {
    sum_owned(by, replica, b.bytes, [&](int r, std::size_t at) { return in(r, stage).at(b.first).own.gradients + at; });
  }
  template <class Part>
  void sum_owned(const bound_stage& by, int replica, std::size_t bytes, const Part& part) const {
    each_sum(by, bytes, part, [&](std::size_t at, std::ptrdiff_t some, const std::byte* sum) {
      if (replica > 0) by.context().copy(some, sum, part(replica, at));
    });
  }
  // Sums in the first replica, in pieces that stay in the cache until `sink(at, bytes, sum)` has copied them.
  // `part(r, at)`: the address in a replica.
  template <class Part, class Sink>
  void each_sum(const bound_stage& by, std::size_t bytes, const Part& part, const Sink& sink) const {
    constexpr std::size_t piece = 1 << 16;
    for (std::size_t at = 0; at < bytes; at += piece) {
      const auto some = static_cast<std::ptrdiff_t>((std::min)(piece, bytes - at));
      std::byte* const sum = part(0, at);
      for (int r = 1; r < plan_->replicas(); ++r)
        by.add(net_->type, some / static_cast<std::ptrdiff_t>(bytes_of(net_->type)), part(r, at), sum);
      sink(at, some, static_cast<const std::byte*>(sum));
    }
  }

  const network* net_;
  const step_plan* plan_;
  const replica_list* replicas_;
  std::vector<std::unique_ptr<replica_barrier>> barriers_;  // [worker of a replica]
  std::vector<std::vector<bucket>> leaving_;                // [stage]: of gradients that leave its memory
  std::vector<next_bucket> next_;                           // [replica][stage]: the first that is not summed
};

}  // namespace gpipe::detail
