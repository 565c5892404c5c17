#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/replicas/leaving_gradients.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

// assumes: one replica per process
// change: the sum over replicas
/// The all-reduce between processes. In each replica one process has the stage; it receives its slice of the gradients
/// from all others, sums it, and sends the sum to them. The bits are the same as in one process.
///
///     replica 0   sends slice 1 | receives slice 0 of 1 | sums slice 0 | sends the sum | receives the sum of slice 1
///     replica 1   sends slice 0 | receives slice 1 of 0 | sums slice 1 | sends the sum | receives the sum of slice 0
///
/// Gradients are sent in buckets. The buckets of a stage's last layers are sent while its backward still runs: a bucket
/// is sent when it is complete, and summed when all slices have arrived. If channels work in a device's order, all
/// buckets are sent as one.
///
/// If replicas keep shares, the slices of a range are its parts in the shares, and only a pass that does not commit
/// sends sums, to the first replica. `leaving_gradients` sends the gradients that leave their stage.
///
/// Only the transport copies. Slices of other replicas have their own landing buffers in the arena.
class process_all_reduce final : public all_reduce {
 public:
  /// Every process makes its channel ends in the same order.
  GPIPE_COLD process_all_reduce(process_group& job, const network& net, const step_plan& plan, replica& part)
      : job_(job),
        net_(net),
        plan_(plan),
        ranks_(plan, &job),
        part_(part),
        queues_(part.queues()),
        exchanges_(detail::index(plan.stages())) {
    for (int s = 0; s < plan.stages(); ++s) {
      if (!part.has(s)) continue;
      const detail::arena_map& map = *part.maps()[detail::index(s)];
      exchange& stage_exchange = exchanges_[detail::index(s)];
      stage_exchange.partials = part.partials(s);
      for (int r = 0; r < plan.replicas() && !stage_exchange.partials.empty(); ++r)
        if (r != part.number()) connect_partials(s, r);
      stage_exchange.gradients = part.gradient_ranges(s);
      if (!plan.trains) continue;
      const stage_view stage(net, plan.cut(), s);
      stage_exchange.shared_out = plan.requirements(s).shares > 1;
      if (stage_exchange.shared_out) connect_parameters(s, stage);
      const bool leave = plan.requirements(s).gradients_leave;
      // The range of the stage's own parameters, then the range of each tied use.
      auto next = stage_exchange.gradients.begin();
      std::byte* landing = map.find(memory_kind::landing, -1, -1).base;
      if (leave) {
        stage_exchange.leaving = std::make_unique<leaving_gradients>(job, net, plan, part, s, landing);
        landing += stage_exchange.leaving->landing_bytes();
        each_bucket(
            stage,
            [&](const bucket& b) {
              if (!b.lent) return;
              std::byte* const base = map.find(memory_kind::gradients, b.first, -1, {}, b.owner != part.number()).base;
              landing = add_range(s, base, edges_of(s, b.begin, b.bytes), landing, range::never);
            },
            plan.replicas());
      } else if (queues_[detail::index(s)] != nullptr) {  // a channel end occupies the device until its peer is ready
        add_range(s, next->begin, edges_of(s, 0, next->bytes), landing, range::never);
      } else {
        each_bucket(stage, [&](const bucket& b) {
          landing = add_range(s, next->begin + b.begin, edges_of(s, b.begin, b.bytes), landing,
                              b.early ? b.first : range::never);
        });
      }
      stage_exchange.buckets = stage_exchange.ranges.size();
      for (int l = plan.first[detail::index(s)]; l < plan.first[detail::index(s) + 1]; ++l) {
        if (net.owns(l)) continue;
        ++next;
        add_range(s, next->begin, equal_edges(next->bytes), map.find(memory_kind::landing, l, -1).base, range::never);
      }
    }
  }

  GPIPE_OUT_OF_LINE std::int64_t sum(int replica, int stage, const wait_context& wait, bool commits) override {
    exchange& stage_exchange = exchanges_[detail::index(stage)];
    // In a commit the owners already have the gradients of tied uses.
    const std::size_t ranges = commits ? stage_exchange.buckets : stage_exchange.ranges.size();
    std::int64_t waited = 0;
    if (stage_exchange.leaving) stage_exchange.leaving->finish(wait, waited);
    finish(stage);
    // Not released earlier, because the commit reads these partials.
    for (const auto& receiver : stage_exchange.partials_in) receiver->release(0);
    for (const auto& sender : stage_exchange.partials_out) sender->publish(0, 1);
    for (std::size_t i = 0; i < ranges; ++i) send_slices(stage_exchange.ranges[i]);
    for (std::size_t i = 0; i < ranges; ++i) waited += sum_slice(stage, stage_exchange.ranges[i], wait);
    // In a commit a replica needs only the sums of its shard.
    const bool spreads = !commits || !stage_exchange.shared_out;
    for (std::size_t i = 0; stage_exchange.shared_out && spreads && i < ranges; ++i)
      send_sums(stage_exchange.ranges[i]);
    for (std::size_t i = 0; i < ranges; ++i) waited += receive_sums(stage_exchange.ranges[i], spreads, wait);
    waited += timed([&] {
      for (const auto& receiver : stage_exchange.partials_in) receiver->consume(0, wait);
      for (const auto& sender : stage_exchange.partials_out) sender->acquire(0, wait);
    });
    if (!commits && replica > 0)
      for (const auto& gradients : stage_exchange.gradients) part_.clear(stage, gradients);
    return waited;
  }

  GPIPE_OUT_OF_LINE progress begin(int, int stage, int layer, const wait_context& wait) override {
    exchange& stage_exchange = exchanges_[detail::index(stage)];
    progress found;
    if (stage_exchange.leaving) {
      found.moved = stage_exchange.leaving->complete(layer, wait, found.waited);
      return found;
    }
    for (range& gradients : stage_exchange.ranges) {
      if (gradients.complete_at < layer || gradients.state == range::progress::summed) continue;
      if (gradients.state == range::progress::untouched) {
        finish(stage);
        send_slices(gradients);
      } else if (std::all_of(gradients.slices_in.begin(), gradients.slices_in.end(),
                             [](auto& receiver) { return receiver.end->arrived(0); })) {
        found.waited += sum_slice(stage, gradients, wait);
      } else {
        continue;
      }
      found.moved = true;
    }
    return found;
  }
  GPIPE_OUT_OF_LINE std::int64_t gather(int, int stage, const wait_context& wait) override {
    exchange& stage_exchange = exchanges_[detail::index(stage)];
    return timed([&] {
      for (const auto& sender : stage_exchange.shares_out) sender->publish(0, 1);
      for (const auto& receiver : stage_exchange.shares_in) receiver->consume(0, wait), receiver->release(0);
      for (const auto& sender : stage_exchange.shares_out) sender->acquire(0, wait);
    });
  }
  void reset() override {
    for (exchange& stage_exchange : exchanges_) {
      for (range& gradients : stage_exchange.ranges) gradients.state = range::progress::untouched;
      if (stage_exchange.leaving) stage_exchange.leaving->reset();
    }
  }

 private:
  template <class End>
  struct end_of {
    int replica;
    std::unique_ptr<End> end;
  };
  // A range of gradients, and the channels of its slices to and from each other replica.
  struct range {
    static constexpr int never = -1;
    int complete_at = never;  // the layer whose last backward completes the range; never: complete at the stage's end
    enum class progress { untouched, sent, summed };
    progress state = progress::untouched;
    std::byte* slice = nullptr;    // this replica's
    std::size_t bytes = 0;         // of the slice
    std::byte* landing = nullptr;  // receives the slice of the other replicas, in ascending order
    std::vector<end_of<sending_end>> slices_out, sums_out;
    std::vector<end_of<receiving_end>> slices_in, sums_in;
  };
  struct exchange {
    std::vector<range> ranges;                    // the buckets of parameters that the stage owns, then each tied use
    std::size_t buckets = 0;                      // the number of the former
    std::vector<replica::range> gradients;        // all of the stage
    std::vector<detail::block_address> partials;  // of each layer that has some
    std::vector<std::unique_ptr<sending_end>> partials_out;
    std::vector<std::unique_ptr<receiving_end>> partials_in;
    std::unique_ptr<leaving_gradients> leaving;            // gradients that do not stay in the stage's memory
    bool shared_out = false;                               // replicas keep shares of the stage
    std::vector<std::unique_ptr<sending_end>> shares_out;  // parameters, to and from each other replica
    std::vector<std::unique_ptr<receiving_end>> shares_in;
  };
  using edges = std::vector<std::size_t>;  // [replica]: its slice of a range begins here; then the range's bytes

  GPIPE_COLD edges equal_edges(std::size_t bytes) const {
    edges begins;
    for (int r = 0; r <= plan_.replicas(); ++r) begins.push_back(slice_begin(bytes, r, plan_.replicas()));
    return begins;
  }
  // The edges of a range of the stage's own parameters: of equal slices, or of its parts in the replicas' shares.
  GPIPE_COLD edges edges_of(int s, std::size_t begin, std::size_t bytes) const {
    if (!exchanges_[detail::index(s)].shared_out) return equal_edges(bytes);
    edges begins;
    each_share(stage_view(net_, plan_.cut(), s), plan_.replicas(), nullptr, [&](int, const stage_share& share) {
      begins.push_back(std::clamp(static_cast<std::size_t>(share.begin), begin, begin + bytes) - begin);
    });
    begins.push_back(bytes);
    return begins;
  }
  template <class Call>
  static std::int64_t timed(Call&& call) {
    const auto begin = now_ns();
    call();
    return now_ns() - begin;
  }

  // The size of one message must fit in an `int`.
  static void add_buffers(channel_layout& layout, std::byte* begin, std::size_t bytes) {
    constexpr std::size_t max_bytes = std::size_t{1} << 30;
    for (std::size_t done = 0; done < bytes; done += max_bytes)
      layout.values.push_back({begin + done, 0, (std::min)(max_bytes, bytes - done)});
  }
  channel_layout layout_to(int replica, int stage) const {
    return {ranks_.rank_of_stage(replica, stage), 1, {}, {0}, {0}, queues_[detail::index(stage)]};
  }
  // Channels that work in a device's order need no wait on the host.
  void finish(int stage) const {
    if (queues_[detail::index(stage)] == nullptr) part_.finish(stage);
  }

  // Returns where the landing buffer of the next range begins.
  GPIPE_COLD std::byte* add_range(int s, std::byte* base, const edges& begins, std::byte* landing, int complete_at) {
    const int R = plan_.replicas(), own_number = part_.number();
    range gradients;
    gradients.complete_at = complete_at;
    gradients.slice = base + begins[detail::index(own_number)];
    gradients.bytes = begins[detail::index(own_number) + 1] - begins[detail::index(own_number)];
    gradients.landing = landing;
    for (int r = 0; r < R; ++r) {
      if (r == own_number) continue;
      const std::size_t first = begins[detail::index(r)], size = begins[detail::index(r) + 1] - first;
      const bool takes = takes_sums(s, r), gets = takes_sums(s, own_number);
      channel_layout slice_out = layout_to(r, s), sum_in = layout_to(r, s);
      channel_layout slice_in = layout_to(r, s), sum_out = layout_to(r, s);
      add_buffers(slice_out, base + first, size), add_buffers(sum_in, base + first, size);
      add_buffers(slice_in, landing, gradients.bytes), add_buffers(sum_out, gradients.slice, gradients.bytes);
      landing += gradients.bytes;
      if (size > 0) gradients.slices_out.push_back({r, job_.sender(slice_out)});
      if (gradients.bytes > 0) gradients.slices_in.push_back({r, job_.receiver(slice_in)});
      if (takes && gradients.bytes > 0) gradients.sums_out.push_back({r, job_.sender(sum_out)});
      if (gets && size > 0) gradients.sums_in.push_back({r, job_.receiver(sum_in)});
    }
    exchanges_[detail::index(s)].ranges.push_back(std::move(gradients));
    return landing;
  }
  // If replicas keep shares, only the first takes sums of the others, in a pass that does not commit.
  bool takes_sums(int s, int replica) const { return replica == 0 || !exchanges_[detail::index(s)].shared_out; }
  GPIPE_COLD void connect_parameters(int s, const stage_view& stage) {
    exchange& stage_exchange = exchanges_[detail::index(s)];
    std::byte* const base = part_.maps()[detail::index(s)]->find(memory_kind::parameters, stage.first(), -1).base;
    const stage_share own_share = share_of_replica(stage, plan_.replicas(), part_.number());
    each_share(stage, plan_.replicas(), nullptr, [&](int r, const stage_share& share) {
      if (r == part_.number()) return;
      channel_layout out = layout_to(r, s), in = layout_to(r, s);
      add_buffers(out, base + own_share.begin, static_cast<std::size_t>(own_share.bytes));
      add_buffers(in, base + share.begin, static_cast<std::size_t>(share.bytes));
      if (own_share.bytes > 0) stage_exchange.shares_out.push_back(job_.sender(out));
      if (share.bytes > 0) stage_exchange.shares_in.push_back(job_.receiver(in));
    });
  }
  GPIPE_COLD void connect_partials(int s, int r) {
    exchange& stage_exchange = exchanges_[detail::index(s)];
    channel_layout out = layout_to(r, s), in = layout_to(r, s);
    for (const detail::block_address& block : stage_exchange.partials) {
      const std::size_t part = block.stride * detail::index(plan_.micro_batches());
      add_buffers(out, block.base + part * detail::index(part_.number()), part);
      add_buffers(in, block.base + part * detail::index(r), part);
    }
    stage_exchange.partials_out.push_back(job_.sender(out));
    stage_exchange.partials_in.push_back(job_.receiver(in));
  }

  void send_slices(range& gradients) {
    if (gradients.state != range::progress::untouched) return;
    for (const auto& sender : gradients.slices_out) sender.end->publish(0, 1);
    gradients.state = range::progress::sent;
  }
  // ((g0 + g1) + g2) + ...: slices of replicas before this one are summed in the landing buffer, later ones in the
  // slice.
  std::int64_t sum_slice(int stage, range& gradients, const wait_context& wait) {
    std::int64_t waited = 0;
    if (gradients.state == range::progress::summed) return waited;
    std::byte *const slice = gradients.slice, *const first = gradients.landing;
    const auto n = static_cast<std::ptrdiff_t>(gradients.bytes / bytes_of(net_.type));
    std::byte* arrived = first;
    for (auto& receiver : gradients.slices_in) {
      waited += timed([&] { receiver.end->consume(0, wait); });
      if (receiver.replica > part_.number()) part_.add(stage, net_.type, n, arrived, slice);
      else if (arrived != first) part_.add(stage, net_.type, n, arrived, first);
      arrived += gradients.bytes;
      if (receiver.replica + 1 == part_.number()) part_.add(stage, net_.type, n, first, slice);
    }
    finish(stage);
    for (auto& receiver : gradients.slices_in) receiver.end->release(0);
    if (!exchanges_[detail::index(stage)].shared_out) send_sums(gradients);
    gradients.state = range::progress::summed;
    return waited;
  }
  void send_sums(range& gradients) {
    for (auto& sender : gradients.sums_out) sender.end->publish(0, 1);
  }
  // A sum arrives in the memory from which its slice was sent, so the slice must have been sent.
  std::int64_t receive_sums(range& gradients, bool spreads, const wait_context& wait) {
    gradients.state = range::progress::untouched;
    return timed([&] {
      for (auto& sender : gradients.slices_out) sender.end->acquire(0, wait);
      if (!spreads) return;
      for (auto& receiver : gradients.sums_in) receiver.end->consume(0, wait), receiver.end->release(0);
      for (auto& sender : gradients.sums_out) sender.end->acquire(0, wait);
    });
  }

  process_group& job_;
  const network& net_;
  const step_plan& plan_;
  rank_layout ranks_;
  replica& part_;
  std::vector<const void*> queues_;  // [stage]
  std::vector<exchange> exchanges_;  // [stage]
};

}  // namespace gpipe::detail
