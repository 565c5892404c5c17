#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE std::int64_t min_step(const network& net, const plan_options& o, const stage_costs& costs) {
  const schedule_choice schedule = o.chosen_schedule();
  const std::int64_t bound = lower_bound_of(net, o, schedule, costs);
  const chain_begin chained = chained_from(net);
  if (!drains(schedule, o.stages) || o.cost_transfers || chained.values > 1) return bound;
  // If every stage has a link with gradients, the objective is the step. Else a stage is among the first layers.
  const zeroed_array<int> first(o.stages);
  const std::int64_t linked = search_cut(net, o, schedule, costs, first.data()).min;
  const std::int64_t fixed = min_with_fixed_stage(o, costs, chained.gradients - 1);
  const std::int64_t min = linked < fixed ? linked : fixed;
  return min > bound ? min : bound;
}

// change: the cut search; by simulation
GPIPE_COLD GPIPE_INLINE void shorten_step(const network& net, const plan_options& o, const stage_costs& costs,
                                          bool searched_whole, int* first) {
  if (o.stages == 1 || (searched_whole && detail::objective_is_step(net, o))) return;
  const detail::cut_simulator simulator(net, o, costs);
  std::int64_t step = simulator.step_of(first);
  if (o.cost_transfers && o.named_processes() > 0) {  // the search has charged links within a process, too
    plan_options free = o;
    free.cost_transfers = false;
    const zeroed_array<int> alternative(o.stages);
    if (search_cut(net, free, o.chosen_schedule(), costs, alternative.data()).fits)
      if (const std::int64_t shorter = simulator.step_of(alternative.data()); shorter < step) {
        step = shorter;
        for (int s = 0; s <= o.stages; ++s) first[s] = alternative[s];
      }
  }
  const std::int64_t bound = detail::min_step(net, o, costs);
  if (step <= bound || step == detail::unlimited) return;  // the plan's checks report why
  if (simulator.affordable_cuts() > 0) simulator.shortest_of_all(step, first);
  else simulator.move_boundaries(step, bound, first);
}

GPIPE_COLD GPIPE_INLINE cut_quality quality_of_cut(const network& net, const plan_options& o, const stage_costs& costs,
                                                   const int* first) {
  const detail::cut_simulator simulator(net, o, costs);
  const schedule_choice schedule = o.chosen_schedule();
  cut_quality found{
      .step = simulator.step_of(first),
  };
  if (detail::objective_is_step(net, o)) {
    const detail::zeroed_array<int> alternative(o.stages);
    const std::int64_t free = search_cut(net, o, schedule, costs, alternative.data(), no_memory_limit).min;
    found.min = free;
    if (o.limits_memory()) {
      const cut_search limited = search_cut(net, o, schedule, costs, alternative.data());
      found.min = limited.min;
      found.whole = limited.whole;
      found.free = limited.whole ? free : 0;
    }
    found.proven = found.whole;
  } else {
    found.min = detail::min_step(net, o, costs);
    if (const std::int64_t cuts = simulator.affordable_cuts(); cuts > 0 && found.step > found.min) {
      found.min = simulator.shortest_of_all(found.step, nullptr);
      found.cuts = cuts;
      found.proven = true;
    }
  }
  found.proven = found.proven || found.step <= found.min;
  return found;
}

}  // namespace gpipe::detail
