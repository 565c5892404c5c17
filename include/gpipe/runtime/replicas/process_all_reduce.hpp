#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/plan/memory/gradient_buckets.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

/// Between processes, of which each replica has one for the stage: every one owns a slice, takes it of all others, sums
/// it, and gives the sum to them. The bits are those of one process.
///
///     replica 0   gives slice 1 | takes slice 0 of 1 | sums slice 0 | gives it | takes the sum of slice 1
///     replica 1   gives slice 0 | takes slice 1 of 0 | sums slice 1 | gives it | takes the sum of slice 0
///
/// Gradients go in buckets, and those of a stage's last layers while its backward still runs: they are given when they
/// are complete, and summed when those of the others are there. They go as one where ends are used in a device's order.
///
/// Nothing is copied but by who carries it; what others give of the own slice has a place of its own in the arena.
template <class Device>
class exchanged_all_reduce final : public all_reduce<Device> {
 public:
  /// Every process makes its ends in the same order.
  GPIPE_COLD exchanged_all_reduce(process_group& job, const network& net, const runtime_plan& plan, replica<Device>& here)
      : job_(job), net_(net), plan_(plan), here_(here), queues_(here.queues()), exchanges_(index(plan.stages())) {
    for (int s = 0; s < plan.stages(); ++s) {
      if (!here.has(s)) continue;
      const bound_stage<Device>& own = here.stage(s);
      own.statistics().each([&](const detail::block_address& at) { exchanges_[index(s)].partials.push_back(at); });
      for (int r = 0; r < plan.replicas() && !exchanges_[index(s)].partials.empty(); ++r)
        if (r != here.number()) join_told(s, r);
      if (!plan.schedule.trains) continue;
      std::byte* landing = own.map().find(memory_kind::landing, -1, -1).base;
      if (queues_[index(s)] != nullptr) {  // each end keeps some of the device busy until the other is there
        join(s, own.gradients(), own.flat_bytes(), landing, range::never);
      } else {
        each_bucket(stage_view(net, plan.cut(), s), [&](const bucket& b) {
          landing = join(s, own.gradients() + b.begin, b.bytes, landing, b.early ? b.first : range::never);
        });
      }
      exchanges_[index(s)].buckets = exchanges_[index(s)].ranges.size();
      for (const auto& b : own.slots())
        if (!net.owns(b.slot))
          join(s, b.gradients, b.layer->parameter_bytes(), own.map().find(memory_kind::landing, b.slot, -1).base,
               range::never);
    }
  }

  GPIPE_OUT_OF_LINE std::int64_t sum(int replica, int stage, const wait_context& what, bool commits) override {
    const bound_stage<Device>& own = here_.stage(stage);
    exchange& all = exchanges_[index(stage)];
    const std::size_t ranges = commits ? all.buckets : all.ranges.size();  // then tied uses have lent theirs
    finish(own, stage);
    for (const auto& from : all.hear) from->release(0);  // not before: layers absorb what others told after the gate
    for (const auto& to : all.tell) to->publish(0, 1);
    for (std::size_t i = 0; i < ranges; ++i) give(all.ranges[i]);
    std::int64_t waited = 0;
    for (std::size_t i = 0; i < ranges; ++i) waited += sum_slice(own, stage, all.ranges[i], what);
    for (std::size_t i = 0; i < ranges; ++i) waited += take_sums(all.ranges[i], what);
    waited += timed([&] {
      for (const auto& from : all.hear) from->consume(0, what);
      for (const auto& to : all.tell) to->acquire(0, what);
    });
    if (!commits && replica > 0)
      own.each_gradient(true, [&](std::size_t begin, std::size_t bytes) {
        own.context().fill(static_cast<std::ptrdiff_t>(bytes), std::byte{0}, own.arena().data() + begin);
      });
    return waited;
  }

  GPIPE_OUT_OF_LINE bool begin(int stage, int slot, const wait_context& what) override {
    const bound_stage<Device>& own = here_.stage(stage);
    bool moved = false;
    for (range& it : exchanges_[index(stage)].ranges) {
      if (it.complete_at < slot || it.now == range::summed) continue;
      if (it.now == range::untouched) {
        finish(own, stage);
        give(it);
      } else if (std::all_of(it.take.begin(), it.take.end(), [](auto& from) { return from.end->arrived(0); })) {
        sum_slice(own, stage, it, what);
      } else {
        continue;
      }
      moved = true;
    }
    return moved;
  }
  void forget() override {
    for (exchange& all : exchanges_)
      for (range& it : all.ranges) it.now = range::untouched;
  }

 private:
  template <class End>
  struct end_of {
    int replica;
    std::unique_ptr<End> end;
  };
  // A range of gradients: of each other replica what it gives of the own slice, and the sums of its own.
  struct range {
    static constexpr int never = -1;
    int complete_at = never;           // when the last backward of this slot is over; never before that of the stage
    enum { untouched, given, summed } now = untouched;
    std::byte* own = nullptr;      // slice, of so many bytes
    std::size_t bytes = 0;
    std::byte* landing = nullptr;  // of the others' parts, in ascending order of replicas
    std::vector<end_of<sending_end>> give, give_sum;
    std::vector<end_of<receiving_end>> take, take_sum;
  };
  struct exchange {
    std::vector<range> ranges;            // of the stage's own parameters, then of each tied use
    std::size_t buckets = 0;              // of its own
    std::vector<detail::block_address> partials;   // of each slot that tells of micro-batches
    std::vector<std::unique_ptr<sending_end>> tell;
    std::vector<std::unique_ptr<receiving_end>> hear;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int rank_of(int replica, int stage) const { return replica * plan_.workers() + plan_.worker_of(stage); }
  std::size_t edge(std::size_t bytes, int replica) const { return slice_begin(bytes, replica, plan_.replicas()); }
  template <class Call>
  static std::int64_t timed(Call&& call) {
    const auto begin = now_ns();
    call();
    return now_ns() - begin;
  }

  // One message carries no more than an `int` of bytes.
  static void load(channel_layout& along, std::byte* at, std::size_t bytes) {
    constexpr std::size_t most = std::size_t{1} << 30;
    for (std::size_t done = 0; done < bytes; done += most)
      along.values.push_back({at + done, 0, (std::min)(most, bytes - done)});
  }
  channel_layout along(int replica, int stage) const {
    return {rank_of(replica, stage), 1, {}, {0}, {0}, queues_[index(stage)]};
  }
  // Ends that are used in a device's order wait for it themselves.
  void finish(const bound_stage<Device>& own, int stage) const {
    if (queues_[index(stage)] == nullptr) own.context().finish();
  }

  // Tells where the next one's landing may be.
  GPIPE_COLD std::byte* join(int s, std::byte* base, std::size_t bytes, std::byte* landing, int complete_at) {
    const int R = plan_.replicas(), own = here_.number();
    range it;
    it.complete_at = complete_at;
    it.own = base + edge(bytes, own);
    it.bytes = edge(bytes, own + 1) - edge(bytes, own);
    it.landing = landing;
    for (int r = 0; r < R; ++r) {
      if (r == own) continue;
      const std::size_t first = edge(bytes, r), size = edge(bytes, r + 1) - first;
      channel_layout parts = along(r, s), sums = along(r, s), own_parts = along(r, s), own_sums = along(r, s);
      load(parts, base + first, size), load(sums, base + first, size);
      load(own_parts, landing, it.bytes), load(own_sums, it.own, it.bytes);
      landing += it.bytes;
      if (size > 0) it.give.push_back({r, job_.sender(parts)});
      if (it.bytes > 0) it.take.push_back({r, job_.receiver(own_parts)});
      if (it.bytes > 0) it.give_sum.push_back({r, job_.sender(own_sums)});
      if (size > 0) it.take_sum.push_back({r, job_.receiver(sums)});
    }
    exchanges_[index(s)].ranges.push_back(std::move(it));
    return landing;
  }
  GPIPE_COLD void join_told(int s, int r) {
    exchange& all = exchanges_[index(s)];
    channel_layout out = along(r, s), in = along(r, s);
    for (const detail::block_address& at : all.partials) {
      const std::size_t part = at.stride * index(plan_.micro_batches());
      load(out, at.base + part * index(here_.number()), part);
      load(in, at.base + part * index(r), part);
    }
    all.tell.push_back(job_.sender(out));
    all.hear.push_back(job_.receiver(in));
  }

  void give(range& it) {
    if (it.now != range::untouched) return;
    for (const auto& to : it.give) to.end->publish(0, 1);
    it.now = range::given;
  }
  // ((g0 + g1) + g2) + ...: those before the own part are summed where they arrived, the rest is added to it.
  std::int64_t sum_slice(const bound_stage<Device>& own, int stage, range& it, const wait_context& what) {
    std::int64_t waited = 0;
    if (it.now == range::summed) return waited;
    std::byte *const mine = it.own, *const first = it.landing;
    const auto n = static_cast<std::ptrdiff_t>(it.bytes / bytes_of(net_.type));
    std::byte* arrived = first;
    for (auto& from : it.take) {
      waited += timed([&] { from.end->consume(0, what); });
      if (from.replica > here_.number()) own.add(net_.type, n, arrived, mine);
      else if (arrived != first) own.add(net_.type, n, arrived, first);
      arrived += it.bytes;
      if (from.replica + 1 == here_.number()) own.add(net_.type, n, first, mine);
    }
    finish(own, stage);
    for (auto& from : it.take) from.end->release(0);
    for (auto& to : it.give_sum) to.end->publish(0, 1);
    it.now = range::summed;
    return waited;
  }
  // The others' slices have left, so their sums may arrive there.
  std::int64_t take_sums(range& it, const wait_context& what) {
    it.now = range::untouched;
    return timed([&] {
      for (auto& to : it.give) to.end->acquire(0, what);
      for (auto& from : it.take_sum) from.end->consume(0, what), from.end->release(0);
      for (auto& to : it.give_sum) to.end->acquire(0, what);
    });
  }

  process_group& job_;
  const network& net_;
  const runtime_plan& plan_;
  replica<Device>& here_;
  std::vector<const void*> queues_;  // [stage]
  std::vector<exchange> exchanges_;  // [stage]
};

}  // namespace gpipe
