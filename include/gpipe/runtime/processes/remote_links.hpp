#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/binding.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

// assumes: several lengths in one process
/// Makes the channel ends of a replica's links to stages in other processes. Every process makes its ends in the same
/// order.
class remote_links {
 public:
  /// `maps[s]` holds the blocks of stage s, or is null if another process has it; `queues[s]` is the queue of its
  /// device.
  remote_links(process_group& job, const network& net, const step_plan& plan,
               const std::vector<const detail::arena_map*>& maps, const std::vector<const void*>& queues)
      : job_(job), net_(net), plan_(plan), ranks_(plan, &job), maps_(maps), queues_(queues) {}

  GPIPE_COLD void connect(std::vector<link_channels>& channels) const {
    for (std::size_t k = 0; k < plan_.links.size(); ++k) {
      const stage_link& link = plan_.links[k];
      if (rank_of(link.source) == rank_of(link.target)) continue;
      const std::vector<int>&stash = plan_.slots_of_links[k].stash, &returned = plan_.slots_of_links[k].returned;
      if (has(link.source)) channels[k].activations.out = job_.sender(activations(link, link.source, stash));
      if (has(link.target)) channels[k].activations.in = job_.receiver(activations(link, link.target, stash));
      if (!link.gradient || !plan_.trains) continue;
      if (has(link.target)) channels[k].gradients.out = job_.sender(gradients(link, link.target, returned));
      if (has(link.source)) channels[k].gradients.in = job_.receiver(gradients(link, link.source, returned));
    }
  }

 private:
  bool has(int stage) const { return rank_of(stage) == job_.rank(); }
  const detail::arena_map& map(int stage) const { return *maps_[detail::index(stage)]; }
  /// The rank of this replica's process with the stage.
  int rank_of(int stage) const { return ranks_.rank_of_stage(ranks_.replica(), stage); }

  /// The layout without values, for the end at stage `end`.
  GPIPE_COLD channel_layout empty(int peer, const std::vector<int>& memory_slots, bool sends, int end) const {
    return {peer,         plan_.options.micro_batch_size,       {},
            memory_slots, sends ? plan_.leaving : memory_slots, queues_[detail::index(end)]};
  }
  // assumes: links in a process move no bytes
  buffer_layout buffer_of(const detail::block_address& block, int v) const {
    const edge_part& part = net_.values[v].part;
    return {block.base, block.stride, part.size * bytes_of(part.type)};
  }
  GPIPE_COLD channel_layout activations(const stage_link& link, int end, const std::vector<int>& memory_slots) const {
    const bool sends = end == link.source;
    channel_layout layout = empty(rank_of(sends ? link.target : link.source), memory_slots, sends, end);
    each_value(link, [&](int v) {
      const auto block = sends ? map(end).find(memory_kind::outgoing, -1, v) : map(end).find(memory_kind::stash, -1, v);
      layout.values.push_back(buffer_of(block, v));
    });
    return layout;
  }
  GPIPE_COLD channel_layout gradients(const stage_link& link, int end, const std::vector<int>& memory_slots) const {
    const bool sends = end == link.target;
    channel_layout layout = empty(rank_of(sends ? link.source : link.target), memory_slots, sends, end);
    const stage_view maker(net_, plan_.cut(), link.target);
    each_value(link, [&](int v) {
      if (!net_.values[v].gradient) return;
      const bool top = maker.top_stage(v) == link.target;
      for (int i = 0, count = 0; i < net_.values[v].readers; ++i) {
        if (!maker.holds(net_.reader(v, i)) || (top && count++ > 0)) continue;
        const auto kind = sends ? memory_kind::outgoing : memory_kind::returned;
        layout.values.push_back(buffer_of(map(end).find(kind, -1, v, {}, maker.return_of(v, i)), v));
      }
    });
    return layout;
  }
  /// Calls `f(value)` for each value that the link carries.
  template <class F>
  void each_value(const stage_link& link, F&& f) const {
    const stage_view source(net_, plan_.cut(), link.source), target(net_, plan_.cut(), link.target);
    for (int v = net_.entering; v < net_.value_count; ++v)
      if (source.writes(v) && target.local_readers(v) > 0) f(v);
  }

  process_group& job_;
  const network& net_;
  const step_plan& plan_;
  rank_layout ranks_;
  const std::vector<const detail::arena_map*>& maps_;
  const std::vector<const void*>& queues_;
};

// assumes: one parameter type
/// Sends values and gradients of tied parameters between the owner's process and the processes of its uses:
///
///     owner   values ------> use, at the begin of a pass
///     owner   <--- gradients use, at the reduction
///
/// Without ties to other processes every `send` does nothing.
class remote_tied_parameters {
 public:
  /// There is one process.
  remote_tied_parameters() = default;
  /// `maps[s]` holds the blocks of stage s, or is null if another process has it; `queues[s]` is the queue of its
  /// device. Every process makes its channel ends in the same order.
  GPIPE_COLD remote_tied_parameters(process_group& job, const network& net, const step_plan& plan,
                                    const std::vector<const detail::arena_map*>& maps,
                                    const std::vector<const void*>& queues) {
    for (const tie& t : plan.ties) connect(t, job, net, plan, maps, queues);
  }

  /// Sends the values of the parameters that this worker owns, and lets its uses receive theirs.
  void send_values(int worker) {
    for (const auto& c : connections_)
      if (c.values_out && c.owner == worker) c.values_out->publish(0, 1);
    for (const auto& c : connections_)
      if (c.values_in && c.user_worker == worker) c.values_in->release(0);
  }
  /// Only for a tie whose owner is in another process.
  const std::byte* receive_values(const tie& t) {
    const connection& c = connection_of(t);
    c.values_in->consume(0, {c.user_stage, -1, "receive_values"});
    return c.values;
  }
  /// Sends the gradients of a use to the owner's process, if it is another process.
  void send_gradients(const tie& t) {
    if (const connection* const c = find(t); c != nullptr && c->gradients_out) c->gradients_out->publish(0, 1);
  }
  /// Only for a tie whose use is in another process.
  const std::byte* receive_gradients(const tie& t, wait_context wait) {
    const connection& c = connection_of(t);
    c.gradients_in->release(0);
    c.gradients_in->consume(0, wait);
    return c.gradients;
  }

  const std::vector<sending_end*>& senders() const { return senders_; }

 private:
  struct connection {
    named_array user{};
    int user_stage = -1, owner = -1, user_worker = -1;  // the last two are workers
    std::byte *values = nullptr, *gradients = nullptr;  // the buffers that are sent, or received into
    std::unique_ptr<sending_end> values_out, gradients_out;
    std::unique_ptr<receiving_end> values_in, gradients_in;
  };

  const connection* find(const tie& t) const {
    for (const connection& c : connections_)
      if (c.user == t.user) return &c;
    return nullptr;
  }
  const connection& connection_of(const tie& t) const {
    if (const connection* const found = find(t)) return *found;
    throw_error({"no process is joined for the tied parameter of layer ", t.user.layer_index},
                {"this is a defect of gpipe"});
  }
  GPIPE_COLD void connect(const tie& t, process_group& job, const network& net, const step_plan& plan,
                          const std::vector<const detail::arena_map*>& maps, const std::vector<const void*>& queues) {
    using detail::index;
    const int owner = plan.cut().stage_of(t.owner.layer_index), user = plan.cut().stage_of(t.user.layer_index);
    const rank_layout ranks(plan, &job);
    const int owner_rank = ranks.rank_of_stage(ranks.replica(), owner);
    const int user_rank = ranks.rank_of_stage(ranks.replica(), user);
    if (owner_rank == user_rank) return;
    const bool owns = owner_rank == job.rank(), uses = user_rank == job.rank();
    const void* const queue = queues[index(owns ? owner : user)];
    const array_location owned = locate(net, t.user);
    const std::size_t bytes = owned.bytes, before = net.tied_bytes(t.user.layer_index, t.user.index);
    const auto layout_to = [&](int rank, std::byte* buffer) {
      return channel_layout{rank, 1, {{buffer, 0, bytes}}, {0}, {0}, queue};
    };
    const auto begin = [&](int stage, memory_kind kind, int layer_index, int number = 0) {
      return maps[index(stage)]->find(kind, layer_index, -1, {}, number).base;
    };
    connection c;
    c.user = t.user, c.user_stage = user;
    c.owner = plan.worker_of(owner), c.user_worker = plan.worker_of(user);
    if (owns) {
      c.values = begin(owner, memory_kind::parameters, t.owner.layer_index) + owned.offset;
      c.values_out = job.sender(layout_to(user_rank, c.values));
      senders_.push_back(c.values_out.get());
      if (plan.trains) {
        c.gradients = begin(owner, memory_kind::tied, t.user.layer_index, 2 + t.user.index);
        c.gradients_in = job.receiver(layout_to(user_rank, c.gradients));
      }
    }
    if (uses) {
      c.values = begin(user, memory_kind::tied, t.user.layer_index) + before;
      c.values_in = job.receiver(layout_to(owner_rank, c.values));
      if (plan.trains) {
        c.gradients = begin(user, memory_kind::tied, t.user.layer_index, 1) + before;
        c.gradients_out = job.sender(layout_to(owner_rank, c.gradients));
        senders_.push_back(c.gradients_out.get());
      }
    }
    connections_.push_back(std::move(c));
  }

  std::vector<connection> connections_;
  std::vector<sending_end*> senders_;
};

}  // namespace gpipe::detail
