#pragma once

#include <gpipe/plan/choose_cut.hpp>
#include <gpipe/plan/stage_plan.hpp>
#include <gpipe/plan/step_time.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpipe {

namespace detail {

/// Whether both leads have to be simulated: without transfers neither is faster, and the shortest needs less memory.
constexpr bool simulates_lead(const plan_options& o) {
  return o.schedule == schedule_kind::interleaved && o.lead == lead_kind::automatic && o.cost_transfers &&
         o.micro_batches >= 1 && o.max_workers() > 1;
}

/// The simulated step of the best cut, or of a custom one, in picoseconds; negative: it breaks the memory limit.
GPIPE_COLD constexpr std::int64_t best_step_of(const network& net, const plan_options& o, const stage_costs& costs,
                                               const int* custom_cut, int boundaries) {
  const int S = o.stages;
  const schedule_choice schedule = o.chosen_schedule();
  const zeroed_array<int> first(S), working_sets(S);
  if (boundaries > 0) take_cut(custom_cut, boundaries, net.slot_count, S, first.data());
  else if (!choose_cut(net, o, schedule, costs, first.data())) return -1;
  const cut made{first.data(), S};
  for (int s = 0; s < S; ++s) {
    const stage_view stage(net, made, s);
    stage_plan its;
    set_requirements(o, schedule, stage, its);
    count_memory(stage, its);
    if (its.memory.total() > o.memory_limit) return -1;
    working_sets[s] = its.requirements.kept_copies;
  }
  int count = 0;
  find_links(net, made, [&count](const link&) { ++count; });
  const zeroed_array<link> links(count);
  find_links(net, made, [&links, at = 0](const link& it) mutable { links[at++] = it; });
  return makespan_of(net, o, schedule, costs, made, links.data(), count, [&](int s) { return working_sets[s]; });
}

}  // namespace detail

/// The lead of a plan's interleaved schedule. If it is automatic and transfers have a cost, both are simulated, each
/// with its own cut and its own memory: the longest is chosen if its step is shorter and fits the memory limit.
GPIPE_COLD constexpr lead_kind choose_lead(const network& net, plan_options o, const int* custom_cut = nullptr,
                                           int boundaries = 0) {
  if (!detail::simulates_lead(o)) return o.lead;
  const detail::zeroed_array<layer_cost> each(cost_count(net, o));
  const stage_costs costs = fill_costs(net, o, each.data());
  const auto step_with = [&](lead_kind kind) {
    o.lead = kind;
    return detail::best_step_of(net, o, costs, custom_cut, boundaries);
  };
  const std::int64_t shortest = step_with(lead_kind::shortest), longest = step_with(lead_kind::longest);
  return longest >= 0 && (shortest < 0 || longest < shortest) ? lead_kind::longest : lead_kind::shortest;
}

}  // namespace gpipe
