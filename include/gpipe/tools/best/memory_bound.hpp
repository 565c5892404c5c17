#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

namespace gpipe::detail {

/// A lower bound of a step whose stages obey their memory limits, for any cut of equal devices, in picoseconds.
///
/// Before the first backward of a stage n micro-batches have passed it. What backward reads of them is in memory, or a
/// layer runs again to write it:
///
///     parameters, gradients, moments | kept of micro-batch 0 | ... | kept of n - 1 |
///     |<------------------- the limit ------------------->|<- at least these bytes are written again ->|
///
/// So for each n micro-batches layers run again, first those with the least time for a byte. A stage is a range of
/// layers, and no range needs less than a part of it, so the best cut by this cost is found by taking layers in turn.
class memory_bound {
 public:
  memory_bound(const network& net, const plan_options& o, const stage_costs& costs)
      : layers_(net.layer_count),
        stages_(o.stages),
        micro_batches_(o.micro_batches),
        as_needed_(o.recompute_whole() == recompute_mode::as_needed && o.recompute_layers.empty()),
        chained_(o.stages == 1 || chained_from(net).begin(true) <= 1),
        schedule_(o.chosen_schedule()) {
    split_ = splits_backward(schedule_, stages_, micro_batches_);
    count_bytes(net, o);
    for (int l = 0; l < layers_; ++l) {
      const layer_cost& c = costs.of(0)[l];
      time_.push_back({c.forward, summed(c.backward_input, c.backward_parameters)});
      all_.forward += time_.back().forward, all_.backward += time_.back().backward;
    }
    class_items(costs);
    tick_index<schedule_choice> table(schedule_, stages_, micro_batches_);
    for (int s = 0; s < stages_; ++s) rows_.push_back(row_of(table.of(s), o.limit_of(s)));
  }

  /// `unlimited`: no cut obeys the limits.
  std::int64_t step() const {
    constexpr std::int64_t most = unlimited / 2;
    const bool several = schedule_.workers(stages_) < stages_;
    const std::int64_t fill = several || !chained_ ? 0 : split_ ? all_.forward : all_.forward + all_.backward;
    if (!has_cut(most, fill > 0)) return unlimited;
    std::int64_t low = 0, high = most;  // a cut has a stage of more than `low`
    while (high - low > low / 1024 + 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (has_cut(middle, fill > 0) ? high : low) = middle;
    }
    return fill + low;
  }

 private:
  struct item {
    std::int64_t bytes = 0;  ///< of a micro-batch
    int layer = 0;           ///< that writes them, again if need be
    int at = 0;              ///< a stage with this layer holds them
  };
  /// A stage, as the table has it.
  struct row {
    int in_flight = 1;         ///< before its first backward
    std::int64_t windows = 1;  ///< disjoint sets of as many micro-batches that wait together
    std::int64_t limit = 0;
  };

  void count_bytes(const network& net, const plan_options& o) {
    const int R = o.shares();
    const std::int64_t shared = o.tensor_rule == nullptr ? o.optimizer_moments : 0;
    for (int l = 0; l < layers_; ++l) {
      const auto own = static_cast<std::int64_t>(net.own_bytes(l));
      const auto tied = net.owns(l) ? 0 : 2 * static_cast<std::int64_t>(net.tied_bytes(l));
      fixed_.push_back(own + (o.shard == shard::gradients && R > 1 ? own / R : own) + shared * own / R + tied);
      if (const auto extras = static_cast<std::int64_t>(net.type_of(l).extra_bytes(o.micro_batch_size)); extras > 0)
        items_.push_back({extras, l, l});
    }
    for (int v = 0; v < net.value_count; ++v)
      if (const int at = holder_of(net, v); at >= 0)
        items_.push_back(
            {static_cast<std::int64_t>(net.values[v].part.bytes(o.micro_batch_size)), net.values[v].writer, at});
  }
  /// A layer whose stage holds the value for backward, wherever the cut falls; -1: there is none.
  static int holder_of(const network& net, int v) {
    const value& of = net.values[v];
    if (of.writer < 0 || net.type_of(of.writer).view) return -1;
    if (net.type_of(of.writer).keeps.output) return of.writer;
    for (int i = 0; i < of.readers; ++i)
      if (net.type_of(net.reader(v, i)).keeps.input) return net.reader(v, i);
    return -1;
  }
  // Items are in classes of about the same time for a byte, and of each class the sums of bytes are known.
  void class_items(const stage_costs& costs) {
    const auto ratio_of = [&](const item& it) {
      return it.bytes == 0 ? 0 : multiplied(costs.of(0)[it.layer].forward, parts) / it.bytes;
    };
    std::vector<std::int64_t> all;
    for (const item& it : items_) all.push_back(ratio_of(it));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const std::size_t each = all.size() / max_classes + 1;
    for (std::size_t i = 0; i < all.size(); i += each) ratios_.push_back(all[i]);
    held_.assign(ratios_.size(), std::vector<std::int64_t>(index(layers_)));
    for (const item& it : items_) {
      const auto above = std::upper_bound(ratios_.begin(), ratios_.end(), ratio_of(it));
      held_[static_cast<std::size_t>(above - ratios_.begin()) - 1][index(it.at)] += it.bytes;
    }
  }
  row row_of(const cell_ticks* ticks, std::int64_t limit) const {
    row its{0, 1, limit};
    const auto waiting = [&](int first) {  // micro-batches from `first` on that have passed before its backward
      int count = 0;
      for (int m = first; m < micro_batches_ && ticks[m].forward < ticks[first].backward; ++m) ++count;
      return count;
    };
    for (int m = 1; m < micro_batches_; ++m)
      if (ticks[m].forward < ticks[m - 1].forward || ticks[m].backward < ticks[m - 1].backward) return {1, 1, limit};
    its.in_flight = waiting(0);
    for (int m = its.in_flight; m < micro_batches_ && waiting(m) >= its.in_flight; m += its.in_flight) ++its.windows;
    return its;
  }

  /// The least cost of a stage, while layers are added to it.
  struct stage_range {
    pass_cost work{};
    std::int64_t fixed = 0;
    std::vector<std::int64_t> held{};  // [class]
  };
  void add(stage_range& to, int l) const {
    to.work.forward += time_[index(l)].forward, to.work.backward += time_[index(l)].backward;
    to.fixed += fixed_[index(l)];
    for (std::size_t c = 0; c < held_.size(); ++c) to.held[c] += held_[c][index(l)];
  }
  /// `unlimited` if it exceeds the limit even if all that can runs again.
  std::int64_t cost_of(const stage_range& it, const row& its, bool fills) const {
    const int M = micro_batches_;
    std::int64_t over = it.fixed - its.limit, again = 0;
    if (as_needed_) {
      for (const std::int64_t bytes : it.held) over += its.in_flight * bytes;
      for (std::size_t c = 0; c < ratios_.size() && over > 0; ++c) {
        const std::int64_t bytes = (std::min)(over, its.in_flight * it.held[c]);
        over -= bytes;
        again += bytes * ratios_[c] / parts;
      }
    }
    if (over > 0) return unlimited;
    return (fills ? M - its.in_flight : M) * it.work.forward + (fills && !split_ ? M - 1 : M) * it.work.backward +
           its.windows * again;
  }
  /// Whether a cut has no stage above `cost`: each takes as many layers as it can.
  bool has_cut(std::int64_t cost, bool fills) const {
    int l = 0;
    stage_range taken;
    for (int s = 0; s < stages_; ++s) {
      taken.work = {};
      taken.fixed = 0;
      taken.held.assign(held_.size(), 0);
      const int last = layers_ - (stages_ - 1 - s), first = l;
      for (; l < last; ++l) {
        add(taken, l);
        if (cost_of(taken, rows_[index(s)], fills) > cost) break;
      }
      if (l == first) return false;
    }
    return l == layers_;
  }

  static constexpr std::int64_t parts = 16;  // of a picosecond, for a byte
  static constexpr std::size_t max_classes = 16;

  int layers_, stages_, micro_batches_;
  bool as_needed_, chained_, split_ = false;
  const schedule_choice schedule_;
  pass_cost all_{};
  std::vector<pass_cost> time_;      // [layer]
  std::vector<std::int64_t> fixed_;  // [layer]
  std::vector<item> items_;
  std::vector<std::int64_t> ratios_;             // [class], ascending, in parts of a picosecond for a byte
  std::vector<std::vector<std::int64_t>> held_;  // [class][layer]: bytes of a micro-batch
  std::vector<row> rows_;                        // [stage]
};

}  // namespace gpipe::detail
