#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/lower_bound.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

// All lower bounds of a step's time, in picoseconds. Each holds for every cut.
//
//     bound                    devices  valid for
//     schedule_lower_bound     equal    the schedule's order, if each stage has a link to the next one
//     makespan_lower_bound     any      any schedule (partition/lower_bound.hpp)
//     min_work                 any      any links
//     longest_path             any      any links
//     min_with_fixed_stage     any      fill-drain, if the first stage has layers before all gradients
//
// `lower_bound_of` chooses among the first four.

namespace gpipe {

namespace detail {

/// The work of a stage before its first backward, and its number of recomputes.
struct stage_order {
  int forwards_before = 0;
  int recomputed = 0;             ///< micro-batches
  bool recomputes_first = false;  ///< the first micro-batch whose gradient arrives is one of them
};

// change: a recompute mode
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
  found.recomputes_first = recomputed[first];
  return found;
}

/// The bottleneck of the best cut, if layer l on stage s costs `cost_of(s, l)`.
template <class Cost, class Fits = fits_always>
constexpr std::int64_t least_bottleneck(int layers, int stages, int micro_batches, const Cost& cost_of,
                                        const Fits& fits = {}) {
  const zeroed_array<pass_cost> costs(stages * layers);
  const zeroed_array<int> kind_of(stages), first(stages);
  for (int s = 0; s < stages; ++s) {
    kind_of[s] = s;
    for (int l = 0; l < layers; ++l) costs[s * layers + l] = cost_of(s, l);
  }
  const partition_problem p{layers,  stages, micro_batches,        costs.data(), stages, kind_of.data(),
                            nullptr, 0,      objective::bottleneck};
  partition(p, first.data(), fits);
  return objective_of(p, first.data());
}

/// One of the workers has at least this share of all work.
constexpr std::int64_t share_of(std::int64_t work, int workers) { return work / workers + (work % workers != 0); }

}  // namespace detail

/// A lower bound of the step time, for any cut into stages that fit, with free transfers, equal devices, and each
/// stage's micro-batches in the schedule's order. With T the time of one micro-batch through all stages and back,
///
///     fill-drain       T + (M - 1) (max f + max b):   the step itself, see `objective_of`
///     1F1B and others  T + max over stages of (M - 1) b + (M - k) f:   before its first gradient can arrive a stage
///                      has done k forwards, and the others come after
///     split backward   F + max over stages of M b + (M - k) f:         nothing has to follow a parameter part
///
/// and at least T, and if a worker has several stages, its share of all work. Recomputed forwards are added, except
/// for the first micro-batch whose gradient arrives, which may run before, and for the first layers, which get no
/// gradient. Each maximum is the smallest of all cuts.
template <scheduler Schedule, class Fits = detail::fits_always>
GPIPE_COLD constexpr std::int64_t schedule_lower_bound(const Schedule& schedule, const layer_cost* costs, int layers,
                                                       int stages, int micro_batches, recompute_mode mode,
                                                       const Fits& fits = {}) {
  detail::require_counts(layers, stages, micro_batches);
  detail::require_admitted(schedule, stages, micro_batches);
  const std::int64_t M = micro_batches;
  const bool split = detail::splits_backward(schedule, stages, micro_batches);

  std::int64_t forward = 0, back = 0, backward = 0;
  for (int l = 0; l < layers; ++l) {
    forward = detail::summed(forward, costs[l].forward);
    back = detail::summed(back, costs[l].backward_input);
    backward = detail::summed(backward, detail::summed(costs[l].backward_input, costs[l].backward_parameters));
  }
  if (!schedule.trains) back = backward = 0;
  // The first layers without a backward: a stage of these gets no gradient, so it may recompute at any time.
  int fixed = 0;
  while (fixed < layers && costs[fixed].backward_input == 0 && costs[fixed].backward_parameters == 0) ++fixed;
  const std::int64_t through = detail::summed(forward, split ? back : backward);
  const auto larger = [](std::int64_t a, std::int64_t b) { return a > b ? a : b; };

  // The bottleneck of `times_forward(stage, layer)` f + `times_backward` b of the best cut.
  const auto bottleneck = [&](const auto& times_forward, std::int64_t times_backward) {
    const auto weighted = [&](int s, int l) {
      return pass_cost{detail::multiplied(costs[l].forward, times_forward(s, l)),
                       detail::multiplied(pass_cost_of(costs[l], false).backward, times_backward)};
    };
    return detail::least_bottleneck(layers, stages, micro_batches, weighted, fits);
  };

  const detail::zeroed_array<detail::stage_order> order(stages);
  int fewest = micro_batches;  // recomputed micro-batches of any stage
  bool fills = !split;         // all forwards come before the first backward
  for (int s = 0; s < stages; ++s) {
    order[s] = detail::order_of(schedule, stages, micro_batches, s, mode);
    if (order[s].recomputed < fewest) fewest = order[s].recomputed;
    fills = fills && order[s].forwards_before == micro_batches && order[s].recomputed == order[0].recomputed;
  }

  if (schedule.workers(stages) < stages) {  // several stages per worker
    const auto times_forward = [&](int s, int) { return M + order[s].recomputed; };
    const std::int64_t work = detail::summed(detail::multiplied(forward, M + fewest), detail::multiplied(backward, M));
    const std::int64_t share = detail::share_of(work, schedule.workers(stages));
    return larger(larger(share, through), bottleneck(times_forward, M));
  }
  if (fills) {
    const bool recomputes = order[0].recomputed > 0;
    const detail::zeroed_array<pass_cost> whole(layers);
    const detail::zeroed_array<int> first(stages);
    for (int l = 0; l < layers; ++l)
      whole[l] = schedule.trains ? pass_cost_of(costs[l], recomputes && l >= fixed) : pass_cost{costs[l].forward, 0};
    partition_problem p{layers, stages, micro_batches, whole.data()};
    p.recomputes_first = order[0].recomputes_first;
    partition(p, first.data(), fits);
    return detail::objective_of(p, first.data());
  }
  const auto times_forward = [&](int s, int l) {
    return M - order[s].forwards_before + (l < fixed ? 0 : order[s].recomputed - order[s].recomputes_first);
  };
  return larger(through, detail::summed(split ? forward : through, bottleneck(times_forward, split ? M : M - 1)));
}

namespace detail {

/// A lower bound of the step time of a chain of layers, for any cut, in picoseconds. It ignores transfers and, if
/// devices differ, the order of the schedule. Recompute as needed may recompute nothing: its bound is the bound of
/// never.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t lower_bound_of(const plan_options& o, const Schedule& schedule,
                                                 const stage_costs& costs) {
  if (!costs.per_stage)
    return schedule_lower_bound(schedule, costs.costs, costs.layers, o.stages, o.micro_batches, o.recompute_whole());
  const bool split = splits_backward(schedule, o.stages, o.micro_batches);
  const zeroed_array<pass_cost> none(o.stages * costs.layers);
  const zeroed_array<int> kind_of(o.stages), recomputed(o.stages);
  for (int s = 0; s < o.stages; ++s) {
    kind_of[s] = s;
    recomputed[s] = order_of(schedule, o.stages, o.micro_batches, s, o.recompute_whole()).recomputed;
  }
  return makespan_lower_bound(
      partition_problem{costs.layers, o.stages, o.micro_batches, none.data(), o.stages, kind_of.data()},
      [&](const partition_problem&, int stage, int layer) {
        const layer_cost& c = costs.of(stage)[layer];
        const std::int64_t back = schedule.trains ? summed(c.backward_input, c.backward_parameters) : 0;
        const std::int64_t once = multiplied(summed(c.forward, back), o.micro_batches);
        return layer_step{c.forward, split ? 0 : back, summed(once, multiplied(c.forward, recomputed[stage]))};
      });
}

/// The work of the busiest worker, for the best cut. No link can make a step shorter.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t min_work(const plan_options& o, const Schedule& schedule, const stage_costs& costs) {
  const int S = o.stages, L = costs.layers;
  const zeroed_array<std::int64_t> forwards(S);
  for (int s = 0; s < S; ++s)
    forwards[s] = o.micro_batches + order_of(schedule, S, o.micro_batches, s, o.recompute_whole()).recomputed;
  const auto work = [&](int s, int l) {
    const layer_cost& c = costs.of(s)[l];
    return pass_cost{multiplied(c.forward, forwards[s]),
                     schedule.trains ? multiplied(pass_cost_of(c, false).backward, o.micro_batches) : 0};
  };
  std::int64_t total = 0;
  for (int l = 0; l < L; ++l) {
    std::int64_t min = max_cost;
    for (int s = 0; s < S; ++s)
      if (const pass_cost c = work(s, l); c.forward + c.backward < min) min = c.forward + c.backward;
    total = summed(total, min);
  }
  const std::int64_t busiest = least_bottleneck(L, S, o.micro_batches, work),
                     share = share_of(total, schedule.workers(S));
  return busiest > share ? busiest : share;
}

/// The time of one micro-batch through the layers that wait for each other, and back. With any number of workers it
/// takes as long. No parameter part is on the path if backward is split.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t longest_path(const network& net, const plan_options& o, const Schedule& schedule,
                                               const stage_costs& costs) {
  const bool split = splits_backward(schedule, o.stages, o.micro_batches);
  const zeroed_array<layer_cost> least(net.layer_count);
  for (int k = 0; k < costs.kinds(o.stages); ++k)
    for (int l = 0; l < net.layer_count; ++l) {
      const layer_cost& c = costs.of(k)[l];
      const std::int64_t back = c.backward_input + (split ? 0 : c.backward_parameters);
      if (k == 0 || c.forward < least[l].forward) least[l].forward = c.forward;
      if (k == 0 || back < least[l].backward_input) least[l].backward_input = back;
    }
  const zeroed_array<std::int64_t> forward(net.layer_count), backward(net.layer_count);
  std::int64_t longest = 0;
  const auto raise = [](std::int64_t& maximum, std::int64_t value) {
    if (value > maximum) maximum = value;
  };
  for (int l = 0; l < net.layer_count; ++l) {
    for (int i = 0; i < net.layers[l].reads; ++i)
      if (const int writer = net.values[net.reads_value(l, i)].writer; writer >= 0) raise(forward[l], forward[writer]);
    forward[l] = summed(forward[l], least[l].forward);
    raise(longest, forward[l]);
  }
  for (int l = net.layer_count - 1; l >= 0 && schedule.trains; --l) {
    backward[l] = forward[l];
    for (int i = 0; i < net.layers[l].writes; ++i) {
      const int v = net.writes_value(l, i);
      for (int k = 0; net.values[v].gradient && k < net.values[v].readers; ++k)
        raise(backward[l], backward[net.reader(v, k)]);
    }
    backward[l] = summed(backward[l], least[l].backward_input);
    raise(longest, backward[l]);
  }
  return longest;
}

/// The same for a network. If stages of some cuts have no link to their neighbour, the bound does not rely on it: no
/// stage waits for the gradients of layers before the last such place, and without values from layer to layer it is the
/// work of the busiest worker, or the longest path.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t lower_bound_of(const network& net, const plan_options& o, const Schedule& schedule,
                                                 const stage_costs& costs) {
  const chain_begin chained = chained_from(net);
  if (o.stages == 1 || chained.begin(schedule.trains) <= 1) return lower_bound_of(o, schedule, costs);
  if (chained.values > 1) {
    const std::int64_t work = min_work(o, schedule, costs), path = longest_path(net, o, schedule, costs);
    return work > path ? work : path;
  }
  const zeroed_array<layer_cost> free(costs.kinds(o.stages) * costs.layers);
  for (int k = 0; k < costs.kinds(o.stages); ++k)
    for (int l = 0; l < costs.layers; ++l) {
      const layer_cost& c = costs.of(k)[l];
      free[k * costs.layers + l] = l < chained.gradients - 1 ? layer_cost{c.forward, 0, 0} : c;
    }
  return lower_bound_of(o, schedule, {free.data(), costs.layers, costs.per_stage});
}

/// The shortest step of fill-drain with a stage that no gradient reaches, from below: layers 0 ... k - 1 are forward
/// only, and the later stages share the others.
GPIPE_COLD inline std::int64_t min_with_fixed_stage(const plan_options& o, const stage_costs& costs, int k) {
  const schedule_choice schedule = o.chosen_schedule();
  const int L = costs.layers, left = L - k;
  std::int64_t passed = 0;
  for (int l = 0; l < k; ++l) {
    std::int64_t min = max_cost;
    for (int s = 0; s < costs.kinds(o.stages); ++s)
      if (costs.of(s)[l].forward < min) min = costs.of(s)[l].forward;
    passed = summed(passed, min);
  }
  const zeroed_array<pass_cost> of_layers(costs.kinds(o.stages) * left);
  const zeroed_array<int> kind_of(o.stages), first(o.stages);
  for (int s = 0; s < costs.kinds(o.stages); ++s)
    for (int l = k; l < L; ++l) of_layers[s * left + l - k] = cost_in(schedule, o, costs.of(s)[l]);
  for (int s = 0; s < o.stages; ++s) kind_of[s] = costs.per_stage ? s : 0;
  std::int64_t shortest = unlimited;
  for (int s = 1; s < o.stages; ++s) {  // the first stage with one of these layers
    if (o.stages - s > left) continue;
    partition_problem p{
        left, o.stages - s, o.micro_batches, of_layers.data(), costs.kinds(o.stages), kind_of.data() + s};
    p.recomputes_first = o.recompute_whole() == recompute_mode::always;
    partition(p, first.data());
    if (const std::int64_t step = objective_of(p, first.data()); step < shortest) shortest = step;
    if (!costs.per_stage) break;  // fewer stages take longer
  }
  return shortest == unlimited ? unlimited : summed(passed, shortest);  // one stage alone has no such cut
}

}  // namespace detail

}  // namespace gpipe
