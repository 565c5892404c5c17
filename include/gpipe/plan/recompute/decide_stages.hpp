#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// Sets the requirements of each stage of a cut, and `before[layer]`, when each layer runs again (see `cut`). `plans`
/// has one element per stage.
template <scheduler Schedule>
GPIPE_COLD constexpr void decide_stages(const network& net, const plan_options& o, const Schedule& schedule,
                                        const stage_costs& costs, const int* first, stage_plan* plans, int* before) {
  const zeroed_array<memory_requirements> needs(o.stages);
  for (int s = 0; s < o.stages; ++s) needs[s] = requirements_of(schedule, o, stage_view(net, {first, o.stages}, s));
  recompute_search search(net, o, costs, needs.data());
  for (int s = 0; s < o.stages; ++s) {
    const stage_recompute decided = search.decide(first, s, o.limit_of(s));
    needs[s].kept_copies = decided.working_sets;
    needs[s].packed = decided.packed;
    plans[s].first = first[s];
    plans[s].last = first[s + 1];
    plans[s].counted = plans[s].counted && plans[s].requirements == needs[s] && !decided.by_layer;
    plans[s].requirements = needs[s];
  }
  for (int l = 0; l < net.layer_count; ++l) before[l] = search.before()[l];
}

}  // namespace gpipe::detail
