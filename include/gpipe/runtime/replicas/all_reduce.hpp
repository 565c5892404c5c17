#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/plan/memory/gradient_buckets.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/replicas/replicas.hpp>

namespace gpipe {

/// Makes one of what the replicas of a stage have found: their gradients are summed, elementwise and in ascending order
/// of replicas, so that every model of this has the same bits; and what layers have told of micro-batches is gathered.
template <class Device>
class all_reduce {
 public:
  virtual ~all_reduce() = default;

  /// Called by a worker of each replica when the backward of its stage is over, for stages in the same order. If the
  /// call commits, every replica has the sums; else replica 0 has, and the others have zeros, to be added to in the
  /// next. Returns for how many nanoseconds the worker waited for others. Throws as waiting does.
  virtual std::int64_t sum(int replica, int stage, const errand& what, bool commits) = 0;

  /// Before, as often as it likes: the gradients of the stage's slots from `slot` on will not change until then.
  /// Whether it has begun something, or gone on with it: it waits for nobody. In one process it does nothing, for there
  /// is nobody but the workers to do it.
  virtual bool begin(int stage, int slot, const errand& what) {
    (void)stage, (void)slot, (void)what;
    return false;
  }
  /// A call has failed: what it has begun is over.
  virtual void forget() {}
};

/// In one process: a worker of each replica sums a slice, where all can see it.
///
///     replica 0   ... backward | door | sums its slice into all | door | ...
///     replica 1   ... backward     |    sums its slice into all |    |
template <class Device>
class shared_all_reduce final : public all_reduce<Device> {
 public:
  GPIPE_ONCE shared_all_reduce(const network& net, const run_plan& plan, lifeline& line,
                               const replica_list<Device>& replicas)
      : net_(&net), plan_(&plan), replicas_(&replicas) {
    for (int w = 0; w < plan.workers(); ++w)
      meetings_.push_back(std::make_unique<meeting>(line, plan.replicas(), w, plan.workers()));
  }

  GPIPE_OUT_OF_LINE std::int64_t sum(int replica, int stage, const errand& what, bool commits) override {
    const int w = plan_->worker_of(stage), seat = replica * plan_->workers() + w;
    meeting& at = *meetings_[index(w)];
    bound_stage<Device>& own = in(replica, stage);
    own.device().mark(at.ready[index(replica)]);
    const auto arrived = now_ns();
    at.door.arrive(seat, what);
    const auto met = now_ns();
    for (auto& ready : at.ready) own.device().await(ready);
    own.each_gradient(!commits, [&](std::size_t begin, std::size_t bytes) {
      const auto edge = [&](int of) { return slice_begin(bytes, of, plan_->replicas()); };
      sum_slice(own, stage, begin + edge(replica), edge(replica + 1) - edge(replica), commits);
    });
    replicas_->each([&](const auto& it) {
      if (it.number() != replica) own.told().hear(it.stage(stage).told(), it.step());
    });
    own.device().mark(at.summed[index(replica)]);
    const auto summed = now_ns();
    at.door.arrive(seat, what);
    for (auto& others : at.summed) own.device().await(others);
    return met - arrived + now_ns() - summed;
  }

 private:
  // Of a worker of a replica and its likes.
  struct meeting {
    gate door;
    std::vector<typename Device::marker> ready, summed;  // [replica]
    meeting(lifeline& line, int replicas, int first, int every)
        : door(line, replicas, first, every), ready(index(replicas)), summed(index(replicas)) {}
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  bound_stage<Device>& in(int replica, int stage) const { return replicas_->at(replica).stage(stage); }

  // In pieces that stay in a cache until they have been copied.
  void sum_slice(const bound_stage<Device>& by, int stage, std::size_t begin, std::size_t bytes, bool commits) const {
    constexpr std::size_t most = 1 << 16;
    const int R = plan_->replicas();
    for (std::size_t at = begin; at < begin + bytes; at += most) {
      const std::size_t some = (std::min)(most, begin + bytes - at);
      const auto count = static_cast<std::ptrdiff_t>(some);
      std::byte* const sum = in(0, stage).arena().data() + at;
      for (int r = 1; r < R; ++r)
        by.add(net_->type, count / static_cast<std::ptrdiff_t>(bytes_of(net_->type)), in(r, stage).arena().data() + at,
               sum);
      for (int r = 1; r < R; ++r) {
        std::byte* const other = in(r, stage).arena().data() + at;
        if (commits) by.device().copy(count, static_cast<const std::byte*>(sum), other);
        else by.device().fill(count, std::byte{0}, other);
      }
    }
  }

  const network* net_;
  const run_plan* plan_;
  const replica_list<Device>* replicas_;
  std::vector<std::unique_ptr<meeting>> meetings_;  // [worker of a replica]
};

}  // namespace gpipe
