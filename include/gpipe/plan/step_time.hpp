#pragma once

#include <cstdint>
#include <type_traits>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/link_cost.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/lower_bound.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/stage_costs.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/step_time_bound.hpp>

namespace gpipe::detail {

/// The times of a stage for one micro-batch. Backward is in one part unless the schedule splits it.
constexpr stage_times times_of(const layer_cost* costs, int first, int last, bool split) {
  stage_times sum;
  for (int l = first; l < last; ++l) {
    sum.forward = summed(sum.forward, costs[l].forward);
    sum.backward_input = summed(sum.backward_input, costs[l].backward_input);
    std::int64_t& other = split ? sum.backward_parameters : sum.backward_input;
    other = summed(other, costs[l].backward_parameters);
  }
  return sum;
}

// Not constexpr: a constant evaluation that reaches it ends, and the compiler shows the call with its numbers.
[[noreturn]] inline void too_large_for_a_constant_so_call_it_at_run_time(int stages, int micro_batches) {
  throw_error({"stages is ", stages, " and micro_batches is ", micro_batches, ", too many for one constant evaluation"},
              {"call it at run time, as describe<plan>() does"});
}

/// The maximum of stages x micro-batches in one constant evaluation under the compilers' default limits.
#ifdef __clang__
inline constexpr std::int64_t max_simulated = 1024, max_bounded = 2048;
#else
inline constexpr std::int64_t max_simulated = 2048, max_bounded = 8192;
#endif

constexpr void require_in_reach(int stages, int micro_batches, std::int64_t max) {
  if (std::is_constant_evaluated() && std::int64_t{stages} * micro_batches > max)
    too_large_for_a_constant_so_call_it_at_run_time(stages, micro_batches);
}

/// The length of a step of a cut model, in picoseconds, by simulation. `kept(s)` is the number of working sets of a
/// stage, for recompute as needed.
template <scheduler Schedule, class Kept>
GPIPE_COLD constexpr std::int64_t makespan_of(const network& net, const plan_options& o, const Schedule& schedule,
                                              const stage_costs& costs, const cut& cut, const stage_link* links,
                                              int link_count, const Kept& kept) {
  const detail::zeroed_array<stage_times> times(o.stages);
  const detail::zeroed_array<int> working_sets(o.stages);
  const detail::zeroed_array<link_times> transfers(link_count);
  const bool split = detail::splits_backward(schedule, o.stages, o.micro_batches);
  for (int s = 0; s < o.stages; ++s) {
    times[s] = detail::times_of(costs.of(s), cut.first[s], cut.first[s + 1], split);
    if (o.recompute == recompute_mode::as_needed) working_sets[s] = kept(s);
  }
  for (int i = 0; o.cost_transfers && i < link_count; ++i) {
    const slot_cost time = link_cost_of(traffic_of(net, cut, links[i], o.micro_batch_size), o.device);
    transfers[i] = {time.forward, time.backward};
  }
  return simulate(schedule, {o.stages,
                             o.micro_batches,
                             {o.recompute, working_sets.data()},
                             times.data(),
                             links,
                             link_count,
                             o.cost_transfers ? transfers.data() : nullptr});
}

/// A lower bound of the step time of a chain of layers, for any cut, in picoseconds. It ignores transfers and, if
/// devices differ, the order of the schedule. Recompute as needed may recompute nothing: its bound is that of never.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t lower_bound_of(const plan_options& o, const Schedule& schedule,
                                                 const stage_costs& costs) {
  if (!costs.each)
    return schedule_lower_bound(schedule, costs.costs, costs.slots, o.stages, o.micro_batches, o.recompute);
  const bool split = detail::splits_backward(schedule, o.stages, o.micro_batches);
  const detail::zeroed_array<slot_cost> none(o.stages * costs.slots);
  const detail::zeroed_array<int> kind_of(o.stages), recomputed(o.stages);
  for (int s = 0; s < o.stages; ++s) {
    kind_of[s] = s;
    recomputed[s] = detail::order_of(schedule, o.stages, o.micro_batches, s, o.recompute).recomputed;
  }
  return makespan_lower_bound(
      partition_problem{costs.slots, o.stages, o.micro_batches, none.data(), o.stages, kind_of.data()},
      [&](const partition_problem&, int stage, int slot) {
        const layer_cost& c = costs.of(stage)[slot];
        const std::int64_t back = schedule.trains ? detail::summed(c.backward_input, c.backward_parameters) : 0;
        const std::int64_t once = detail::multiplied(detail::summed(c.forward, back), o.micro_batches);
        return slot_step{c.forward, split ? 0 : back,
                         detail::summed(once, detail::multiplied(c.forward, recomputed[stage]))};
      });
}

/// The work of the busiest worker, for the best cut. No link can make a step shorter.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t least_work(const plan_options& o, const Schedule& schedule,
                                             const stage_costs& costs) {
  const int S = o.stages, L = costs.slots, workers = schedule.workers(S);
  const zeroed_array<slot_cost> work(S * L);
  const zeroed_array<int> kind_of(S), first(S);
  std::int64_t all = 0;
  for (int s = 0; s < S; ++s) {
    kind_of[s] = s;
    const std::int64_t forwards = o.micro_batches + order_of(schedule, S, o.micro_batches, s, o.recompute).recomputed;
    for (int l = 0; l < L; ++l) {
      const layer_cost& c = costs.of(s)[l];
      work[s * L + l] = {multiplied(c.forward, forwards),
                         schedule.trains ? multiplied(slot_cost_of(c, false).backward, o.micro_batches) : 0};
    }
  }
  for (int l = 0; l < L; ++l) {
    std::int64_t least = max_cost;
    for (int s = 0; s < S; ++s)
      if (const slot_cost& c = work[s * L + l]; c.forward + c.backward < least) least = c.forward + c.backward;
    all = summed(all, least);
  }
  partition_problem p{L, S, o.micro_batches, work.data(), S, kind_of.data()};
  p.goal = objective::bottleneck;
  partition(p, first.data());
  const std::int64_t busiest = objective_of(p, first.data()), share = all / workers + (all % workers != 0);
  return busiest > share ? busiest : share;
}

/// The same for a network. If stages of some cuts have no link to their neighbour, the bound does not count on it: no
/// stage waits for the gradients of slots before the last such place, and without values from slot to slot it is the
/// work of the busiest worker.
template <scheduler Schedule>
GPIPE_COLD constexpr std::int64_t lower_bound_of(const network& net, const plan_options& o, const Schedule& schedule,
                                                 const stage_costs& costs) {
  const chain_begin chained = chained_from(net);
  if (o.stages == 1 || chained.begin(schedule.trains) <= 1) return lower_bound_of(o, schedule, costs);
  if (chained.values > 1) return detail::least_work(o, schedule, costs);
  const detail::zeroed_array<layer_cost> free(costs.kinds(o.stages) * costs.slots);
  for (int k = 0; k < costs.kinds(o.stages); ++k)
    for (int l = 0; l < costs.slots; ++l) {
      const layer_cost& c = costs.of(k)[l];
      free[k * costs.slots + l] = l < chained.gradients - 1 ? layer_cost{c.forward, 0, 0} : c;
    }
  return lower_bound_of(o, schedule, {free.data(), costs.slots, costs.each});
}

}  // namespace gpipe::detail
