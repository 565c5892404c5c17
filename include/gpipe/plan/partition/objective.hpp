#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/checks.hpp>

namespace gpipe {

namespace detail {

/// The objective of a cut. Throws if a count, the cut or a cost is not valid, or if 64 bits do not suffice.
///
/// With r for the part of b that runs forward again, a fill-drain step with free transfers takes
///
///     sum f + sum (b - r) + (M - 1) (max f + max b).
///
/// The first gradient finds no stage that still runs forward again, for it belongs to the last forward. If this
/// micro-batch runs forward again too, every stage does so after its last forward, and the gradient waits for the stage
/// at which this ends last: the two sums become
///
///     max over stages t of  r of t + sum over stages s <= t of (f + b - r).
constexpr std::int64_t objective_of(const partition_problem& p, const int* first) {
  detail::require_problem(p);
  require_cut(first, p.layers, p.stages);
  const auto add = [&p](std::int64_t a, std::int64_t b) { return detail::added(a, b, p.layers, p.micro_batches); };
  std::int64_t sum = 0, turn = 0, forward = 0, backward = 0, bottleneck = 0;
  const detail::zeroed_array<std::int64_t> moved(p.stages);
  if (p.transfer_count > 0) {
    const detail::zeroed_array<int> stage_of(p.layers);
    for (int s = 0; s < p.stages; ++s)
      for (int l = first[s]; l < first[s + 1]; ++l) stage_of[l] = s;
    for (int i = 0; i < p.transfer_count; ++i) {
      const transfer& transfer = p.transfers[i];
      const int source = stage_of[transfer.writer];
      if (stage_of[transfer.last_reader()] > source) moved[source] = add(moved[source], transfer.charge());
      for (int r = 0, before = source; r < transfer.reader_count; before = stage_of[transfer.reader(r++)]) {
        const int target = stage_of[transfer.reader(r)];
        if (target > before) moved[target] = add(moved[target], transfer.charge());
      }
    }
  }
  for (int s = 0; s < p.stages; ++s) {
    const pass_cost* costs = p.costs_on(s);
    pass_cost stage_cost{};
    for (int l = first[s]; l < first[s + 1]; ++l) {
      detail::require_cost(l, costs[l]);
      stage_cost.forward = add(stage_cost.forward, costs[l].forward);
      stage_cost.backward = add(stage_cost.backward, costs[l].backward);
      stage_cost.recompute += costs[l].recompute;
    }
    const std::int64_t both = add(stage_cost.forward, stage_cost.backward), total = add(both, moved[s]);
    sum = add(sum, both - stage_cost.recompute);
    if (const std::int64_t turned = p.recomputes_first ? add(sum, stage_cost.recompute) : sum; turned > turn)
      turn = turned;
    if (stage_cost.forward > forward) forward = stage_cost.forward;
    if (stage_cost.backward > backward) backward = stage_cost.backward;
    if (total > bottleneck) bottleneck = total;
  }
  if (p.goal == objective::bottleneck) return bottleneck;
  const std::int64_t period = add(forward, backward), periods = p.micro_batches - 1;
  if (periods > 0 && period > detail::unlimited / periods) detail::cost_overflow(p.layers, p.micro_batches);
  return add(turn, periods * period);
}

}  // namespace detail

/// The duration of a fill-drain step with equal micro-batches, equal devices and free transfers,
///
///     sum f + sum b + (M - 1) (max f + max b),
///
/// over stages s with the layers [first[s], first[s + 1]). The two maxima may belong to different stages.
constexpr std::int64_t fill_drain_makespan(const pass_cost* costs, int layers, const int* first, int stages,
                                           int micro_batches) {
  return detail::objective_of({layers, stages, micro_batches, costs}, first);
}

}  // namespace gpipe
