#pragma once

#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/arena_map.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/processes/replica_part.hpp>
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

  GPIPE_COLD void connect(replica_part& part) const {
    for (std::size_t k = 0; k < plan_.links.size(); ++k) {
      const stage_link& link = plan_.links[k];
      if (rank_of(link.source) == rank_of(link.target)) continue;
      const std::vector<int>&stash = plan_.slots_of_links[k].stash, &returned = plan_.slots_of_links[k].returned;
      if (has(link.source)) part.activations(k).out = job_.sender(activations(link, link.source, stash));
      if (has(link.target)) part.activations(k).in = job_.receiver(activations(link, link.target, stash));
      if (!link.gradient || !plan_.trains) continue;
      if (has(link.target)) part.gradients(k).out = job_.sender(gradients(link, link.target, returned));
      if (has(link.source)) part.gradients(k).in = job_.receiver(gradients(link, link.source, returned));
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

}  // namespace gpipe::detail
