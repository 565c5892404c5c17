#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/simulated_cut.hpp>
#include <gpipe/plan/stages/link.hpp>

namespace gpipe::detail {

/// The shortest step of fill-drain with a stage that no gradient reaches, from below: slots 0 ... k - 1 are forward
/// only, and the stages behind share the others.
GPIPE_COLD inline std::int64_t least_with_fixed_stage(const plan_options& o, const stage_costs& costs, int k) {
  const schedule_choice schedule = o.chosen_schedule();
  const int L = costs.slots, left = L - k;
  std::int64_t passed = 0;
  for (int l = 0; l < k; ++l) {
    std::int64_t least = max_cost;
    for (int s = 0; s < costs.kinds(o.stages); ++s)
      if (costs.of(s)[l].forward < least) least = costs.of(s)[l].forward;
    passed = summed(passed, least);
  }
  const zeroed_array<slot_cost> of_slots(costs.kinds(o.stages) * left);
  const zeroed_array<int> kind_of(o.stages), first(o.stages);
  for (int s = 0; s < costs.kinds(o.stages); ++s)
    for (int l = k; l < L; ++l) of_slots[s * left + l - k] = cost_in(schedule, o, costs.of(s)[l]);
  for (int s = 0; s < o.stages; ++s) kind_of[s] = costs.each ? s : 0;
  std::int64_t shortest = unlimited;
  for (int s = 1; s < o.stages; ++s) {  // the first stage with one of these slots
    if (o.stages - s > left) continue;
    partition_problem p{
        left, o.stages - s, o.micro_batches, of_slots.data(), costs.kinds(o.stages), kind_of.data() + s};
    p.first_again = o.recompute == recompute_mode::always;
    partition(p, first.data());
    if (const std::int64_t step = objective_of(p, first.data()); step < shortest) shortest = step;
    if (!costs.each) break;  // fewer stages take longer
  }
  return shortest == unlimited ? unlimited : summed(passed, shortest);  // one stage alone has no such cut
}

GPIPE_COLD GPIPE_INLINE std::int64_t least_step(const network& net, const plan_options& o, const stage_costs& costs) {
  const schedule_choice schedule = o.chosen_schedule();
  const std::int64_t bound = lower_bound_of(net, o, schedule, costs);
  const chain_begin chained = chained_from(net);
  if (!drains(schedule, o.stages) || o.cost_transfers || chained.values > 1) return bound;
  // If every stage has a link with gradients, the objective is the step. Else a stage is among the first slots.
  const zeroed_array<int> first(o.stages);
  const std::int64_t linked = search_cut(net, o, schedule, costs, first.data()).least;
  const std::int64_t fixed = least_with_fixed_stage(o, costs, chained.gradients - 1);
  const std::int64_t least = linked < fixed ? linked : fixed;
  return least > bound ? least : bound;
}

GPIPE_COLD GPIPE_INLINE void shorten_step(const network& net, const plan_options& o, const stage_costs& costs,
                                          bool searched_whole, int* first) {
  if (o.stages == 1 || (searched_whole && detail::objective_is_step(net, o))) return;
  const detail::cut_simulator simulator(net, o, costs);
  const std::int64_t step = simulator.step_of(first), bound = detail::least_step(net, o, costs);
  if (step <= bound || step == detail::unlimited) return;  // the plan's own checks say why
  if (simulator.affordable_cuts() > 0) simulator.shortest_of_all(step, first);
  else simulator.move_boundaries(step, bound, first);
}

GPIPE_COLD GPIPE_INLINE cut_verdict judge_cut(const network& net, const plan_options& o, const stage_costs& costs,
                                              const int* first) {
  const detail::cut_simulator simulator(net, o, costs);
  const schedule_choice schedule = o.chosen_schedule();
  cut_verdict found{.step = simulator.step_of(first), };
  if (detail::objective_is_step(net, o)) {
    const detail::zeroed_array<int> other(o.stages);
    plan_options without = o;
    without.memory_limit = no_memory_limit;
    const std::int64_t free = search_cut(net, without, schedule, costs, other.data()).least;
    found.least = free;
    if (o.memory_limit != no_memory_limit) {
      const cut_search limited = search_cut(net, o, schedule, costs, other.data());
      found.least = limited.least;
      found.whole = limited.whole;
      found.free = limited.whole ? free : 0;
    }
    found.proven = found.whole;
  } else {
    found.least = detail::least_step(net, o, costs);
    if (const std::int64_t cuts = simulator.affordable_cuts(); cuts > 0 && found.step > found.least) {
      found.least = simulator.shortest_of_all(found.step, nullptr);
      found.cuts = cuts;
      found.proven = true;
    }
  }
  found.proven = found.proven || found.step <= found.least;
  return found;
}

}  // namespace gpipe::detail
