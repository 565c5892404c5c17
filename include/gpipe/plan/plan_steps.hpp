#pragma once

#include <cstdint>
#include <initializer_list>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/recompute/decide_stages.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

// The steps of a plan, in order. Each is one constant evaluation in a `plan`, and one call in `make_plan`.

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
  return makespan_of(net, o, schedule, costs, made, [&](int s) { return stages[s].requirements.kept_copies; });
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

namespace detail {

/// The number of micro-batches whose parameter gradients a stage computes together: the option's, or as many as pay
/// off. They pay off if a gradient is larger than the nearest cache and a micro-batch has few rows for it: then a
/// product needs longer to read and write the gradient than to multiply.
///
///     rows of a sample = operations of the parameter part / 2 / parameters
GPIPE_COLD constexpr int group_size(const network& net, const plan_options& o) {
  constexpr std::size_t nearest_cache = 48 * 1024;
  constexpr std::int64_t enough_rows = 256;
  if (!o.may_group_gradients()) return 1;
  int group = o.group_gradients;
  if (group == 0) {
    std::int64_t operations = 0, parameters = 0;
    for (int l = 0; l < net.layer_count; ++l) {
      const layer_type& r = net.type_of(l);
      if (r.parameter_bytes() <= nearest_cache) continue;
      operations += r.cost.backward_parameters / 2;
      parameters += static_cast<std::int64_t>(r.parameter_elements());
    }
    group = 1;
    const std::int64_t rows = parameters == 0 ? 0 : (operations + parameters / 2) / parameters * o.micro_batch_size;
    if (rows > 0)
      while (group < max_gradient_group && rows * group < enough_rows) group *= 2;
  }
  return group < o.micro_batches ? group : o.micro_batches;
}

}  // namespace detail

/// The same for a cut. With a memory limit and group_gradients 0 the number is halved until every stage has memory for
/// it. The cut is chosen before, for groups of one, so groups never make it worse. Recompute as needed recomputes
/// nothing if the stages have memory for the groups and for all working sets. `plan` has an element for each stage.
template <scheduler Schedule>
GPIPE_COLD constexpr int choose_gradient_group(const network& net, plan_options o, const Schedule& schedule,
                                               const cut& stages, stage_plan* plan) {
  const bool open = o.group_gradients == 0 && o.limits_memory();
  if (o.recompute == recompute_mode::as_needed) o.recompute = recompute_mode::never;
  const auto fit = [&] {
    for (int s = 0; s < o.stages; ++s) {
      const stage_view stage(net, stages, s);
      if (plan[s].count(stage, requirements_of(schedule, o, stage)) > o.limit_of(s)) return false;
    }
    return true;
  };
  for (o.group_gradients = detail::group_size(net, o); open && o.group_gradients > 1 && !fit();) o.group_gradients /= 2;
  return o.group_gradients;
}

namespace detail {

/// Marks the stages of a cut that run single layers again; returns whether any does.
constexpr bool mark_by_layer(const network& net, const cut& made, bool* by_layer) {
  bool any = false;
  for (int s = 0; s < made.stages; ++s) {
    by_layer[s] = stage_view(net, made, s).first_recomputed() >= 0;
    any = any || by_layer[s];
  }
  return any;
}

/// The work that runs again, for stages with these numbers of working sets.
constexpr recompute_choice recompute_in(const plan_options& o, const int* working_sets, const bool* by_layer) {
  const recompute_mode whole = o.recompute_whole();
  return {whole, whole == recompute_mode::as_needed ? working_sets : nullptr, by_layer};
}

/// The slots of a stage's micro-batches, in arrays of M elements: see `stage_slots`.
template <scheduler Schedule>
constexpr void assign_stage_slots(tick_index<Schedule>& table, const recompute_choice& choice, int stage, bool split,
                                  int* entering, int* forward, int* backward, int* held) {
  stash_slots(table, stage, stage, entering);
  working_set_slots(table.schedule(), table.stages(), table.micro_batches(), choice, stage, forward, backward);
  if (split) held_slots(table, stage, held);
}

/// The slots that the two stages of a link have for its activations and its gradients.
constexpr void set_copies(const stage_plan* plans, const stage_link& link, int* copies) {
  const int distance = link.target - link.source;
  copies[0] = plans[link.target].requirements.stash.from(distance);
  copies[1] = plans[link.source].requirements.returned.from(distance);
}

/// Each stage's share of the predicted time.
template <scheduler Schedule>
GPIPE_COLD constexpr void set_shares(const Schedule& schedule, const plan_options& o, const stage_costs& costs,
                                     const cut& made, double* shares) {
  const zeroed_array<std::int64_t> times(o.stages);
  std::int64_t sum = 0;
  for (int s = 0; s < o.stages; ++s) sum += times[s] = time_in(schedule, o, costs, made, s);
  for (int s = 0; s < o.stages && sum > 0; ++s) shares[s] = static_cast<double>(times[s]) / static_cast<double>(sum);
}

}  // namespace detail

}  // namespace gpipe
