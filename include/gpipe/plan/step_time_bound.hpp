#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

namespace gpipe {

namespace detail {

/// The work of a stage before its first backward, and its number of recomputes.
struct stage_order {
  int forwards_before = 0;
  int recomputed = 0;        ///< micro-batches
  bool first_again = false;  ///< the first micro-batch whose gradient arrives is one of them
};

template <scheduler Schedule>
constexpr stage_order order_of(const Schedule& schedule, int stages, int micro_batches, int stage,
                               recompute_mode mode) {
  tick_index<Schedule> table(schedule, stages, micro_batches);
  const zeroed_array<bool> recomputed(micro_batches);
  stage_order found;
  if (mode != recompute_mode::as_needed) found.recomputed = flag_recomputed(table, mode, stage, recomputed.data());
  const cell_ticks* ticks = table.of(stage);
  int first = 0;
  for (int m = 1; m < micro_batches; ++m)
    if (ticks[m].backward < ticks[first].backward) first = m;
  for (int m = 0; m < micro_batches; ++m)
    found.forwards_before += !schedule.trains || ticks[m].forward < ticks[first].backward;
  found.first_again = recomputed[first];
  return found;
}

}  // namespace detail

/// A lower bound of the step time, for any cut into stages that fit, with free transfers, equal devices, and each
/// stage's micro-batches in the schedule's order. With T the time of one micro-batch through all stages and back,
///
///     fill-drain       T + (M - 1) (max f + max b):   the step itself, see `objective_of`
///     1F1B and others  T + max over stages of (M - 1) b + (M - k) f:   before its first gradient can arrive a stage
///                      has done k forwards, and the rest comes after
///     split backward   F + max over stages of M b + (M - k) f:         nothing has to follow a parameter part
///
/// and at least T, and if a worker has several stages, its share of all work. Recomputed forwards are added, except
/// that of the first micro-batch whose gradient arrives, which may run before, and those of the first slots, which get
/// no gradient. Each maximum is the smallest of all cuts.
template <scheduler Schedule, class Fits = detail::fits_always>
GPIPE_COLD constexpr std::int64_t schedule_lower_bound(const Schedule& schedule, const layer_cost* costs, int slots,
                                                       int stages, int micro_batches, recompute_mode mode,
                                                       const Fits& fits = {}) {
  detail::require_counts(slots, stages, micro_batches);
  detail::require_admitted(schedule, stages, micro_batches);
  const std::int64_t M = micro_batches;
  const bool split = detail::splits_backward(schedule, stages, micro_batches);

  std::int64_t forward = 0, back = 0, backward = 0;
  for (int l = 0; l < slots; ++l) {
    forward = detail::summed(forward, costs[l].forward);
    back = detail::summed(back, costs[l].backward_input);
    backward = detail::summed(backward, detail::summed(costs[l].backward_input, costs[l].backward_parameters));
  }
  if (!schedule.trains) back = backward = 0;
  // The first slots without a backward: a stage of these gets no gradient, so it may recompute at any time.
  int fixed = 0;
  while (fixed < slots && costs[fixed].backward_input == 0 && costs[fixed].backward_parameters == 0) ++fixed;
  const std::int64_t through = detail::summed(forward, split ? back : backward);
  const auto larger = [](std::int64_t a, std::int64_t b) { return a > b ? a : b; };

  // The bottleneck of `times_forward(stage, slot)` f + `times_backward` b of the best cut.
  const auto bottleneck = [&](const auto& times_forward, std::int64_t times_backward) {
    const detail::zeroed_array<slot_cost> weighted(stages * slots);
    const detail::zeroed_array<int> kind_of(stages), first(stages);
    for (int s = 0; s < stages; ++s) {
      kind_of[s] = s;
      for (int l = 0; l < slots; ++l)
        weighted[s * slots + l] = {detail::multiplied(costs[l].forward, times_forward(s, l)),
                                   detail::multiplied(slot_cost_of(costs[l], false).backward, times_backward)};
    }
    const partition_problem p{slots,   stages, micro_batches,        weighted.data(), stages, kind_of.data(),
                              nullptr, 0,      objective::bottleneck};
    partition(p, first.data(), fits);
    return detail::objective_of(p, first.data());
  };

  const detail::zeroed_array<detail::stage_order> order(stages);
  int fewest = micro_batches;  // recomputed micro-batches of any stage
  bool fills = !split;         // all forwards come before the first backward
  for (int s = 0; s < stages; ++s) {
    order[s] = detail::order_of(schedule, stages, micro_batches, s, mode);
    if (order[s].recomputed < fewest) fewest = order[s].recomputed;
    fills = fills && order[s].forwards_before == micro_batches && order[s].recomputed == order[0].recomputed;
  }

  if (schedule.workers(stages) < stages) {  // several stages a worker
    const auto times_forward = [&](int s, int) { return M + order[s].recomputed; };
    const std::int64_t all = detail::summed(detail::multiplied(forward, M + fewest), detail::multiplied(backward, M));
    const int workers = schedule.workers(stages);
    const std::int64_t share = all / workers + (all % workers != 0);
    return larger(larger(share, through), bottleneck(times_forward, M));
  }
  if (fills) {
    const bool again = order[0].recomputed > 0;
    const detail::zeroed_array<slot_cost> whole(slots);
    const detail::zeroed_array<int> first(stages);
    for (int l = 0; l < slots; ++l)
      whole[l] = schedule.trains ? slot_cost_of(costs[l], again && l >= fixed) : slot_cost{costs[l].forward, 0};
    partition_problem p{slots, stages, micro_batches, whole.data()};
    p.first_again = order[0].first_again;
    partition(p, first.data(), fits);
    return detail::objective_of(p, first.data());
  }
  const auto times_forward = [&](int s, int l) {
    return M - order[s].forwards_before + (l < fixed ? 0 : order[s].recomputed - order[s].first_again);
  };
  return larger(through, detail::summed(split ? forward : through, bottleneck(times_forward, split ? M : M - 1)));
}

}  // namespace gpipe
