#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/runtime/binding/arena_map.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/step/commit_decision.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

/// What a worker has to do with the other processes of its job, each of which is a worker of the same plan: the ends of
/// links that lead there, values and gradients of tied parameters, and what a call's decision is made of. Replica r has
/// the ranks r K ... r K + K - 1.
class abroad {
 public:
  /// `maps[s]` holds the blocks of stage s, null where it is not here, and `queues[s]` is its device's. Every process
  /// makes its ends in the same order.
  GPIPE_COLD abroad(process_group& job, const network& net, const runtime_plan& plan,
                    const std::vector<const detail::arena_map*>& maps, std::vector<const void*> queues)
      : job_(job),
        net_(net),
        plan_(plan),
        maps_(maps),
        queues_(std::move(queues)),
        replica_(job.rank() / plan.workers()) {
    for (const tie& t : plan.ties) join(t);
    std::vector<std::size_t> sizes(static_cast<std::size_t>(job.ranks()));
    partial_bytes_ = net.loss_slot() < 0 ? 0
                                : static_cast<std::size_t>(plan.micro_batches()) *
                                      net.row_of(net.loss_slot()).partial_bytes();
    for (int r = 0; r < plan.replicas(); ++r)
      for (int s = 0; s < plan.stages(); ++s) sizes[index(rank_of(r, s))] += squares_of(r, s) + partial_bytes_of(s);
    meeting_ = job.make_all_gather(sizes);
  }

  /// Which replica is here, in part.
  int replica() const { return replica_; }
  bool has(int stage) const { return rank_of(replica_, stage) == job_.rank(); }
  process_group& job() const { return job_; }
  void begin(wait_context what) { job_.begin(what); }
  /// The host waits for a stage's device.
  void wait(int stage, wait_context what) {
    if (const void* queue = queues_[index(stage)]) job_.wait(queue, what);
  }

  /// Makes the ends of links that lead to other processes.
  template <class Marker>
  GPIPE_COLD void connect(std::vector<link_channels<Marker>>& channels) {
    for (std::size_t k = 0; k < channels.size(); ++k) {
      const link& it = plan_.links[k];
      if (plan_.worker_of(it.from) == plan_.worker_of(it.to)) continue;
      const std::vector<int>&stash = plan_.slots_of_links[k].stash, &returned = plan_.slots_of_links[k].returned;
      if (has(it.from)) channels[k].activations.out = job_.sender(activations(it, it.from, stash));
      if (has(it.to)) channels[k].activations.in = job_.receiver(activations(it, it.to, stash));
      if (!it.gradient || !plan_.schedule.trains) continue;
      if (has(it.to)) channels[k].gradients.out = job_.sender(gradients(it, it.to, returned));
      if (has(it.from)) channels[k].gradients.in = job_.receiver(gradients(it, it.from, returned));
    }
  }

  /// All bring what their stages have found, and have what all have.
  GPIPE_OUT_OF_LINE void exchange(commit_decision& decision) {
    visit([&](int r, int s, std::size_t at) {
      if (rank_of(r, s) != job_.rank()) return;
      std::byte* to = meeting_->mine() + at;
      copy(to, decision.squares.data() + plan_.first[index(s)], squares_of(r, s));
      copy(to + squares_of(r, s), partials_in(decision, r), partial_bytes_of(s));
    });
    meeting_->gather({.action = "gather"}, settled_);
    visit([&](int r, int s, std::size_t at) {
      if (rank_of(r, s) == job_.rank()) return;
      const std::byte* from = meeting_->of(rank_of(r, s)) + at;
      copy(decision.squares.data() + plan_.first[index(s)], from, squares_of(r, s));
      copy(partials_in(decision, r), from + squares_of(r, s), partial_bytes_of(s));
    });
  }

  /// Bytes that the process with a stage of a replica has, for all; `which` tells them from others.
  void share(int replica, int stage, void* bytes, std::size_t size, std::uint64_t which = 0) const {
    job_.broadcast(bytes, size, rank_of(replica, stage), which);
  }

  /// Of tied parameters: the values of those that are owned here leave, and arrive where they are used.
  void give_values() {
    for (const auto& t : ties_)
      if (t.values_out) t.values_out->publish(0, 1);
    for (const auto& t : ties_)
      if (t.values_in) t.values_in->release(0);
  }
  const std::byte* take_values(const tie& of) {
    const joined& t = find(of);
    t.values_in->consume(0, {plan_.cut().stage_of(of.user), -1, "receive_values"});
    return t.values;
  }
  /// The gradients of a use leave for the owner's process, if that is another, and arrive there.
  void give_gradients(const tie& of) {
    if (const joined& t = find(of); t.gradients_out) t.gradients_out->publish(0, 1);
  }
  const std::byte* take_gradients(const tie& of, wait_context what) {
    const joined& t = find(of);
    t.gradients_in->release(0);
    t.gradients_in->consume(0, what);
    return t.gradients;
  }

 private:
  struct joined {
    tie of;
    std::byte *values = nullptr, *gradients = nullptr;  // where they lie or arrive
    std::unique_ptr<sending_end> values_out, gradients_out;
    std::unique_ptr<receiving_end> values_in, gradients_in;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  // Of who brings nothing the bytes are nowhere.
  static void copy(void* into, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(into, from, bytes);
  }
  const detail::arena_map& map(int stage) const { return *maps_[index(stage)]; }
  int rank_of(int replica, int stage) const { return replica * plan_.workers() + plan_.worker_of(stage); }
  int rank_of(int stage) const { return rank_of(replica_, stage); }
  // The first replica tells those of all, for gradients are summed over replicas by then.
  std::size_t squares_of(int r, int s) const {
    return r > 0 ? 0 : index(plan_.first[index(s) + 1] - plan_.first[index(s)]) * sizeof(double);
  }
  std::byte* partials_in(commit_decision& decision, int r) const {
    return reinterpret_cast<std::byte*>(decision.partials.data()) + index(r) * partial_bytes_;
  }
  std::size_t partial_bytes_of(int s) const {
    return net_.loss_slot() >= 0 && plan_.cut().stage_of(net_.loss_slot()) == s ? partial_bytes_ : 0;
  }
  /// Each stage of each replica, and where what its process brings of it lies.
  template <class Visit>
  void visit(Visit&& call) const {
    for (int rank = 0; rank < job_.ranks(); ++rank) {
      const int r = rank / plan_.workers();
      std::size_t at = 0;
      for (int s = 0; s < plan_.stages(); ++s) {
        if (rank_of(r, s) != rank) continue;
        call(r, s, at);
        at += squares_of(r, s) + partial_bytes_of(s);
      }
    }
  }

  const joined& find(const tie& of) const {
    std::size_t i = 0;
    while (ties_[i].of.user != of.user) ++i;
    return ties_[i];
  }
  GPIPE_COLD void join(const tie& of) {
    const int owner = plan_.cut().stage_of(of.owner), user = plan_.cut().stage_of(of.user);
    joined t;
    t.of = of;
    if (plan_.worker_of(owner) != plan_.worker_of(user)) {
      const void* const queue = queues_[index(has(owner) ? owner : user)];
      const auto along = [&](int stage, std::byte* at) {
        return channel_layout{rank_of(stage), 1, {{at, 0, net_.row_of(of.owner).parameter_bytes()}}, {0}, {0}, queue};
      };
      if (has(owner)) {
        t.values = map(owner).find(memory_kind::parameters, of.owner, -1).base;
        t.values_out = job_.sender(along(user, t.values));
        settled_.push_back(t.values_out.get());
        if (plan_.schedule.trains) {
          t.gradients = map(owner).find(memory_kind::tied, of.user, -1).base;
          t.gradients_in = job_.receiver(along(user, t.gradients));
        }
      }
      if (has(user)) {
        t.values = map(user).find(memory_kind::tied, of.user, -1).base;
        t.values_in = job_.receiver(along(owner, t.values));
        if (plan_.schedule.trains) {
          t.gradients = map(user).find(memory_kind::tied, of.user, -1, {}, 1).base;
          t.gradients_out = job_.sender(along(owner, t.gradients));
          settled_.push_back(t.gradients_out.get());
        }
      }
    }
    ties_.push_back(std::move(t));
  }

  GPIPE_COLD channel_layout start(int peer, const std::vector<int>& slots, bool leaves, int end) const {
    return {peer, plan_.options.micro_batch_size, {}, slots, leaves ? plan_.leaving : slots, queues_[index(end)]};
  }
  buffer_layout lies(const detail::block_address& at, int v) const {
    const edge_part& of = net_.values[v].part;
    return {at.base, at.stride, of.size * bytes_of(of.type)};
  }
  // Of the end at one of the link's stages.
  GPIPE_COLD channel_layout activations(const link& it, int end, const std::vector<int>& slots) const {
    const bool leaves = end == it.from;
    channel_layout along = start(rank_of(leaves ? it.to : it.from), slots, leaves, end);
    each_value(it, [&](int v) {
      const auto at = leaves ? map(end).find(memory_kind::outgoing, -1, v) : map(end).find(memory_kind::stash, -1, v);
      along.values.push_back(lies(at, v));
    });
    return along;
  }
  GPIPE_COLD channel_layout gradients(const link& it, int end, const std::vector<int>& slots) const {
    const bool leaves = end == it.to;
    channel_layout along = start(rank_of(leaves ? it.from : it.to), slots, leaves, end);
    const stage_view maker(net_, plan_.cut(), it.to);
    each_value(it, [&](int v) {
      if (!net_.values[v].gradient) return;
      const bool top = maker.top_stage(v) == it.to;
      for (int i = 0, count = 0; i < net_.values[v].readers; ++i) {
        if (!maker.holds(net_.reader(v, i)) || (top && count++ > 0)) continue;
        const int which = maker.return_of(v, i);
        const auto kind = leaves ? memory_kind::outgoing : memory_kind::returned;
        along.values.push_back(lies(map(end).find(kind, -1, v, {}, which), v));
      }
    });
    return along;
  }
  template <class Visit>
  void each_value(const link& it, Visit&& call) const {
    const stage_view from(net_, plan_.cut(), it.from), to(net_, plan_.cut(), it.to);
    for (int v = net_.entering; v < net_.value_count; ++v)
      if (from.writes(v) && to.local_readers(v) > 0) call(v);
  }

  process_group& job_;
  const network& net_;
  const runtime_plan& plan_;
  std::vector<const detail::arena_map*> maps_;
  std::vector<const void*> queues_;  // [stage]
  int replica_;
  std::size_t partial_bytes_ = 0;  ///< bytes of what the loss tells of a replica's micro-batches
  std::vector<joined> ties_;
  std::vector<sending_end*> settled_;
  std::unique_ptr<all_gather> meeting_;
};

}  // namespace gpipe
