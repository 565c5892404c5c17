#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// Chooses the layers of a stage that run forward again: for each number of bytes the choice that takes the least time.
///
/// It is a knapsack (Kellerer, Pferschy and Pisinger, "Knapsack Problems", 2004) whose weights depend on each other: a
/// value that backward does not read is kept only if a recomputed layer reads it. So layers are decided from the
/// last to the first, and a state is the set of such values whose writer is still to be decided:
///
///     norm > linear > gelu > linear > add          decided: add runs again
///                              `- v -'             v is open: if the linear before does not run again, v is kept
///
/// Each state has a list of points (time, bytes), of which none is as good as another in both.
class layer_knapsack {
 public:
  /// A point counts the bytes of all copies. Above these numbers points or choices are left out: `whole()` is then
  /// false.
  static constexpr int max_points = 256, max_open = 5;

  /// `joins`: layers with several inputs may run again. Without them fewer layers run again at once, so fewer bytes
  /// come back in backward: a join is where residual connections end.
  constexpr layer_knapsack(const stage_view& stage, const memory_requirements& needs, const layer_cost* costs,
                           bool joins = true)
      : stage_(stage),
        net_(stage.net()),
        needs_(needs),
        costs_(costs),
        joins_(joins),
        states_(1 << max_open),
        next_states_(1 << max_open) {
    const int start = add_node({});
    append(states_[0], start);
    for (int l = stage.last() - 1; l >= stage.first(); --l) decide(l);
  }
  constexpr ~layer_knapsack() {
    for (int i = 0; i < 1 << max_open; ++i) {
      delete[] states_[i].nodes;
      delete[] next_states_[i].nodes;
    }
    delete[] nodes_;
  }
  layer_knapsack(const layer_knapsack&) = delete;
  layer_knapsack& operator=(const layer_knapsack&) = delete;

  /// The points, the fastest first: the first runs nothing again.
  constexpr int points() const { return states_[0].count; }
  /// The time of one micro-batch, in picoseconds.
  constexpr std::int64_t time(int point) const { return nodes_[states_[0].nodes[point]].time; }
  /// Kept bytes of all micro-batches in flight.
  constexpr std::int64_t bytes(int point) const { return nodes_[states_[0].nodes[point]].bytes; }
  /// Whether no choice was left out.
  constexpr bool whole() const { return whole_; }
  /// Marks the layers that run again: `marked[layer]` of the stage's layers.
  constexpr void mark(int point, bool* marked) const {
    int l = stage_.first();
    for (int n = states_[0].nodes[point]; l < stage_.last(); n = nodes_[n].next) marked[l++] = nodes_[n].recomputed;
  }

  struct change {
    std::int64_t bytes = 0, time = 0;
    bool runs = false;
  };
  /// The bytes and the time that a layer adds if it may run again, or if not. `recompute_reads(v)`: a layer that
  /// runs again reads the value.
  template <class ReadAgain>
  constexpr change change_of(int l, bool recompute, const ReadAgain& recompute_reads) const {
    const layer_type& r = net_.type_of(l);
    auto kept = static_cast<std::int64_t>(r.extra_bytes(needs_.micro_batch_size));
    bool wanted = kept > 0;
    for (int o = 0; o < net_.layers[l].writes; ++o) {
      const int v = net_.writes_value(l, o);
      if (!stage_.needed(v) && !recompute_reads(v)) continue;
      wanted = true;
      kept += static_cast<std::int64_t>(net_.values[v].part.bytes(needs_.micro_batch_size));
    }
    if (!recompute || !wanted) return {kept * needs_.kept_copies, 0, false};
    return {0, costs_[l].forward, true};
  }

 private:
  struct node {
    std::int64_t time = 0, bytes = 0;
    int next = -1;  // the decision of the next layer
    bool recomputed = false;
  };
  struct list {
    int* nodes = nullptr;
    int count = 0, capacity = 0;
  };

  GPIPE_COLD constexpr void decide(int l) {
    const bool may = (joins_ || net_.layers[l].reads < 2) && opens(l) && !always_keeps(net_, l);
    for (int mask = 0; mask < 1 << open_count_; ++mask) {
      const auto recompute_reads = [&](int v) {
        const int place = place_of(v);
        return place >= 0 && (mask >> place & 1) != 0;
      };
      if (states_[mask].count == 0) continue;
      const change without = change_of(l, false, recompute_reads), with = change_of(l, true, recompute_reads);
      extend(states_[mask], mask_after(mask, l, false), without, false);
      if (may && with.runs) extend(states_[mask], mask_after(mask, l, true), with, true);
    }
    close(l);
    for (int mask = 0; mask < 1 << max_open; ++mask) {
      const list empty = states_[mask];
      states_[mask] = next_states_[mask];
      next_states_[mask] = {empty.nodes, 0, empty.capacity};
    }
  }

  constexpr int place_of(int v) const {
    for (int i = 0; i < open_count_; ++i)
      if (open_[i] == v) return i;
    return -1;
  }
  /// Opens the values that the layer reads and that backward does not; false: they are too many.
  constexpr bool opens(int l) {
    const int before = open_count_;
    for (int i = 0; i < net_.layers[l].reads; ++i) {
      const int v = net_.reads_value(l, i);
      if (!stage_.writes(v) || stage_.needed(v) || place_of(v) >= 0) continue;
      if (open_count_ == max_open) {
        open_count_ = before;
        whole_ = false;
        return false;
      }
      open_[open_count_++] = v;
    }
    return true;
  }
  /// The state after a decision, without the values that the layer writes.
  constexpr int mask_after(int mask, int l, bool recompute) const {
    for (int i = 0; recompute && i < net_.layers[l].reads; ++i)
      if (const int position = place_of(net_.reads_value(l, i)); position >= 0) mask |= 1 << position;
    int left = 0, place = 0;
    for (int i = 0; i < open_count_; ++i)
      if (net_.values[open_[i]].writer != l) left |= (mask >> i & 1) << place++;
    return left;
  }
  constexpr void close(int l) {
    int place = 0;
    for (int i = 0; i < open_count_; ++i)
      if (net_.values[open_[i]].writer != l) open_[place++] = open_[i];
    open_count_ = place;
  }

  /// Merges the points of a list, each with a further decision, into the points of the next state.
  GPIPE_COLD constexpr void extend(const list& source, int mask, const change& added, bool recompute) {
    list merged;
    list& old = next_states_[mask];
    std::int64_t least = unlimited;
    for (int i = 0, j = 0; i < source.count || j < old.count;) {
      bool takes_new = j == old.count;
      if (i < source.count && j < old.count) {
        const node &a = nodes_[source.nodes[i]], &b = nodes_[old.nodes[j]];
        takes_new = a.time + added.time < b.time || (a.time + added.time == b.time && a.bytes + added.bytes < b.bytes);
      }
      const node& a = nodes_[takes_new ? source.nodes[i] : old.nodes[j]];
      const node point = takes_new ? node{a.time + added.time, a.bytes + added.bytes, source.nodes[i], recompute} : a;
      const int kept = takes_new ? -1 : old.nodes[j];
      ++(takes_new ? i : j);
      if (point.bytes >= least) continue;
      least = point.bytes;
      append(merged, kept >= 0 ? kept : add_node(point));
    }
    delete[] old.nodes;
    old = merged;
    if (old.count > max_points) thin(old);
  }
  /// Leaves out points, but neither the fastest nor the smallest.
  constexpr void thin(list& points) {
    whole_ = false;
    const int half = max_points / 2;
    for (int i = 1; i < half; ++i)
      points.nodes[i] = points.nodes[static_cast<int>(std::int64_t{i} * (points.count - 1) / (half - 1))];
    points.count = half;
  }

  constexpr int add_node(const node& n) {
    if (node_count_ == node_capacity_) {
      node_capacity_ = node_capacity_ == 0 ? 64 : 2 * node_capacity_;
      node* larger = new node[static_cast<unsigned>(node_capacity_)];
      for (int i = 0; i < node_count_; ++i) larger[i] = nodes_[i];
      delete[] nodes_;
      nodes_ = larger;
    }
    nodes_[node_count_] = n;
    return node_count_++;
  }
  static constexpr void append(list& target, int n) {
    if (target.count == target.capacity) {
      target.capacity = target.capacity == 0 ? 16 : 2 * target.capacity;
      int* larger = new int[static_cast<unsigned>(target.capacity)]{};
      for (int i = 0; i < target.count; ++i) larger[i] = target.nodes[i];
      delete[] target.nodes;
      target.nodes = larger;
    }
    target.nodes[target.count++] = n;
  }

  const stage_view& stage_;
  const network& net_;
  const memory_requirements& needs_;
  const layer_cost* costs_;
  bool joins_;
  zeroed_array<list> states_, next_states_;  // [state]
  node* nodes_ = nullptr;
  int node_count_ = 0, node_capacity_ = 0;
  int open_[max_open]{}, open_count_ = 0;
  bool whole_ = true;
};

/// When the marked layers of a stage run forward again: `before[layer]`, see `cut`. As late as possible: before the
/// first backward that reads what the layer writes, or together with a layer that then runs again and reads it. So each
/// runs once. A marked layer whose outputs are read by none of these does not run.
///
///     layers       0 norm > 1 attention > 2 add > 3 norm > 4 linear > 5 gelu > 6 linear > 7 add
///     marked       0                              3                   5
///     runs before  1                              4                   6
constexpr void place_recomputes(const network& net, int first, int last, const bool* marked, int* before) {
  const auto raise = [](int& latest, int layer) {
    if (layer > latest) latest = layer;
  };
  for (int l = last - 1; l >= first; --l) {
    before[l] = -1;
    if (!marked[l]) continue;
    const layer_type& r = net.type_of(l);
    if (r.extra_count > 0 || r.keeps.output) before[l] = l;
    for (int o = 0; o < net.layers[l].writes; ++o) {
      const int v = net.writes_value(l, o);
      for (int i = 0; i < net.values[v].readers; ++i) {
        const int reader = net.reader(v, i);
        if (reader >= last) break;
        if (net.type_of(reader).keeps.input) raise(before[l], reader);
        raise(before[l], before[reader]);
      }
    }
  }
}

}  // namespace gpipe::detail
