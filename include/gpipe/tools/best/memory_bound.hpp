#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/tools/best/estimates.hpp>

namespace gpipe::detail {

/// A lower bound of a step whose stages obey their memory limits, for any cut of equal devices, in picoseconds.
///
/// Before the first backward of a stage, n micro-batches have passed it. The values that backward reads from them are
/// in memory, or a layer runs again to write them:
///
///     parameters, gradients, moments | kept of micro-batch 0 | ... | kept of n - 1 |
///     |<------------------- the limit ------------------->|<- at least these bytes are written again ->|
///
/// So layers run again for every n micro-batches, first those with the least time per byte. A stage is a range of
/// layers, and no range costs less than a part of it, so taking layers in turn finds the best cut by this cost.
class memory_bound {
 public:
  memory_bound(const network& net, const plan_options& options, const stage_costs& costs)
      : layers_(net.layer_count),
        stages_(options.stages),
        micro_batches_(options.micro_batches),
        as_needed_(options.recompute_whole() == recompute_mode::as_needed && options.recompute_layers.empty()),
        chained_(options.stages == 1 || chained_from(net).begin(true) <= 1),
        schedule_(options.chosen_schedule()) {
    split_ = splits_backward(schedule_, stages_, micro_batches_);
    count_bytes(net, options);
    for (int l = 0; l < layers_; ++l) {
      const layer_cost& c = costs.of(0)[l];
      time_.push_back({c.forward, summed(c.backward_input, c.backward_parameters)});
      total_.forward += time_.back().forward, total_.backward += time_.back().backward;
    }
    class_items(costs);
    tick_index<schedule_choice> table(schedule_, stages_, micro_batches_);
    for (int s = 0; s < stages_; ++s) rows_.push_back(row_of(table.of(s), options.limit_of(s)));
  }

  /// `unlimited`: no cut obeys the limits.
  std::int64_t step() const {
    constexpr std::int64_t most = unlimited / 2;
    const bool several = schedule_.workers(stages_) < stages_;
    const std::int64_t fill = several || !chained_ ? 0 : split_ ? total_.forward : total_.forward + total_.backward;
    if (!has_cut(most, fill > 0)) return unlimited;
    std::int64_t low = 0, high = most;  // a cut has a stage of more than `low`
    while (high - low > low / 1024 + 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (has_cut(middle, fill > 0) ? high : low) = middle;
    }
    return fill + low;
  }

 private:
  struct kept_item {
    std::int64_t bytes = 0;  ///< of a micro-batch
    int layer = 0;           ///< the layer that writes them, again if need be
    int holder = 0;          ///< a stage with this layer holds them
  };
  /// A stage's row of the table.
  struct stage_row {
    int in_flight = 1;         ///< before its first backward
    std::int64_t windows = 1;  ///< disjoint sets of this number of micro-batches that wait together
    std::int64_t limit = 0;
  };

  void count_bytes(const network& net, const plan_options& options) {
    const int R = options.shares();
    const std::int64_t shared = options.tensor_rule == nullptr ? options.optimizer_moments : 0;
    for (int l = 0; l < layers_; ++l) {
      const auto own_bytes = static_cast<std::int64_t>(net.own_bytes(l));
      const auto tied = net.owns(l) ? 0 : 2 * static_cast<std::int64_t>(net.tied_bytes(l));
      fixed_.push_back(own_bytes + (options.shard == shard::gradients && R > 1 ? own_bytes / R : own_bytes) +
                       shared * own_bytes / R + tied);
      if (const auto extras = static_cast<std::int64_t>(net.type_of(l).extra_bytes(options.micro_batch_size));
          extras > 0)
        items_.push_back({extras, l, l});
    }
    for (int v = 0; v < net.value_count; ++v)
      if (const int holder = holder_of(net, v); holder >= 0)
        items_.push_back({static_cast<std::int64_t>(net.values[v].part.bytes(options.micro_batch_size)),
                          net.values[v].writer, holder});
  }
  // Groups the items into classes of about the same time per byte, and sums the bytes of each class.
  void class_items(const stage_costs& costs) {
    const auto ratio_of = [&](const kept_item& item) {
      return item.bytes == 0 ? 0 : multiplied(costs.of(0)[item.layer].forward, parts) / item.bytes;
    };
    std::vector<std::int64_t> ratios;
    for (const kept_item& item : items_) ratios.push_back(ratio_of(item));
    std::sort(ratios.begin(), ratios.end());
    ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
    const std::size_t stride = ratios.size() / max_classes + 1;
    for (std::size_t i = 0; i < ratios.size(); i += stride) ratios_.push_back(ratios[i]);
    held_.assign(ratios_.size(), std::vector<std::int64_t>(index(layers_)));
    for (const kept_item& item : items_) {
      const auto above = std::upper_bound(ratios_.begin(), ratios_.end(), ratio_of(item));
      held_[static_cast<std::size_t>(above - ratios_.begin()) - 1][index(item.holder)] += item.bytes;
    }
  }
  stage_row row_of(const cell_ticks* ticks, std::int64_t limit) const {
    stage_row row{0, 1, limit};
    const auto waiting = [&](int first) {  // micro-batches from `first` on that have passed before its backward
      int count = 0;
      for (int m = first; m < micro_batches_ && ticks[m].forward < ticks[first].backward; ++m) ++count;
      return count;
    };
    for (int m = 1; m < micro_batches_; ++m)
      if (ticks[m].forward < ticks[m - 1].forward || ticks[m].backward < ticks[m - 1].backward) return {1, 1, limit};
    row.in_flight = waiting(0);
    for (int m = row.in_flight; m < micro_batches_ && waiting(m) >= row.in_flight; m += row.in_flight) ++row.windows;
    return row;
  }

  /// The least cost of a stage, while layers are added to it.
  struct stage_range {
    pass_cost work{};
    std::int64_t fixed = 0;
    std::vector<std::int64_t> held{};  // [class]
  };
  void add(stage_range& range, int l) const {
    range.work.forward += time_[index(l)].forward, range.work.backward += time_[index(l)].backward;
    range.fixed += fixed_[index(l)];
    for (std::size_t c = 0; c < held_.size(); ++c) range.held[c] += held_[c][index(l)];
  }
  /// `unlimited` if it exceeds the limit even with all possible recompute.
  std::int64_t cost_of(const stage_range& range, const stage_row& row, bool fills) const {
    const int M = micro_batches_;
    std::int64_t over = range.fixed - row.limit, recompute_time = 0;
    if (as_needed_) {
      for (const std::int64_t bytes : range.held) over += row.in_flight * bytes;
      for (std::size_t c = 0; c < ratios_.size() && over > 0; ++c) {
        const std::int64_t bytes = (std::min)(over, row.in_flight * range.held[c]);
        over -= bytes;
        recompute_time += bytes * ratios_[c] / parts;
      }
    }
    if (over > 0) return unlimited;
    return (fills ? M - row.in_flight : M) * range.work.forward + (fills && !split_ ? M - 1 : M) * range.work.backward +
           row.windows * recompute_time;
  }
  /// Whether some cut has no stage above `cost`: each stage takes as many layers as it can.
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

  static constexpr std::int64_t parts = 16;  // of a picosecond, per byte
  static constexpr std::size_t max_classes = 16;

  int layers_, stages_, micro_batches_;
  bool as_needed_, chained_, split_ = false;
  const schedule_choice schedule_;
  pass_cost total_{};
  std::vector<pass_cost> time_;      // [layer]
  std::vector<std::int64_t> fixed_;  // [layer]
  std::vector<kept_item> items_;
  std::vector<std::int64_t> ratios_;             // [class], ascending, in parts of a picosecond per byte
  std::vector<std::vector<std::int64_t>> held_;  // [class][layer]: bytes of a micro-batch
  std::vector<stage_row> rows_;                  // [stage]
};

}  // namespace gpipe::detail
