#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/recompute/decide_stages.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

#include <cstdint>
#include <initializer_list>

namespace gpipe {

namespace detail {

/// Whether both warm-ups have to be simulated: without transfers neither is faster, and the shortest needs less memory.
constexpr bool simulates_warmup(const plan_options& o) {
  return o.schedule == schedule_kind::interleaved && o.warmup == warmup_kind::automatic && o.cost_transfers &&
         o.micro_batches >= 1 && o.max_workers() > 1;
}

/// The simulated step of a cut, in picoseconds; negative: it breaks the memory limit.
GPIPE_COLD constexpr std::int64_t step_of_cut(const network& net, const plan_options& o, const stage_costs& costs,
                                              const int* first) {
  const int S = o.stages;
  const schedule_choice schedule = o.chosen_schedule();
  const zeroed_array<stage_plan> stages(S);
  const zeroed_array<int> before(net.layer_count);
  decide_stages(net, o, schedule, costs, first, stages.data(), before.data());
  const cut made{first, S, before.data()};
  for (int s = 0; s < S; ++s) {
    count_memory(stage_view(net, made, s), stages[s]);
    if (stages[s].memory.total() > o.limit_of(s)) return -1;
  }
  int count = 0;
  find_links(net, made, [&count](const stage_link&) { ++count; });
  const zeroed_array<stage_link> links(count);
  find_links(net, made, [&links, next = 0](const stage_link& link) mutable { links[next++] = link; });
  return makespan_of(net, o, schedule, costs, made, links.data(), count,
                     [&](int s) { return stages[s].requirements.kept_copies; });
}

/// `cut_for(options, costs)`: the cut with these options; null: none obeys the memory limit.
template <class CutFor>
constexpr warmup_kind faster_warmup(const network& net, plan_options o, const CutFor& cut_for) {
  if (!simulates_warmup(o)) return o.warmup;
  const zeroed_array<layer_cost> costs_of_layers(cost_count(net, o));
  const stage_costs costs = fill_costs(net, o, costs_of_layers.data());
  const auto step_with = [&](warmup_kind kind) -> std::int64_t {
    o.warmup = kind;
    const int* const first = cut_for(o, costs);
    return first == nullptr ? -1 : step_of_cut(net, o, costs, first);
  };
  const std::int64_t shortest = step_with(warmup_kind::shortest), longest = step_with(warmup_kind::longest);
  return longest >= 0 && (shortest < 0 || longest < shortest) ? warmup_kind::longest : warmup_kind::shortest;
}

}  // namespace detail

/// The warm-up of a plan's interleaved schedule. If it is automatic and transfers have a cost, both are simulated, each
/// with its own cut and its own memory: the longest is chosen if its step is shorter and fits the memory limit.
GPIPE_COLD constexpr warmup_kind choose_warmup(const network& net, const plan_options& o) {
  const detail::zeroed_array<int> first(o.stages);
  return detail::faster_warmup(net, o, [&](const plan_options& with, const stage_costs& costs) -> const int* {
    return choose_cut(net, with, with.chosen_schedule(), costs, first.data()) ? first.data() : nullptr;
  });
}
/// The same for a known cut, which both warm-ups share.
GPIPE_COLD constexpr warmup_kind choose_warmup(const network& net, const plan_options& o, const int* first) {
  return detail::faster_warmup(net, o, [first](const plan_options&, const stage_costs&) { return first; });
}

}  // namespace gpipe
