#pragma once

#include <cstdint>
#include <type_traits>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// The times of a stage for one micro-batch. Backward is in one part unless the schedule splits it.
constexpr stage_times times_of(const layer_cost* costs, int first, int last, bool split) {
  stage_times sum;
  for (int l = first; l < last; ++l) {
    sum.forward = summed(sum.forward, costs[l].forward);
    sum.backward_input = summed(sum.backward_input, costs[l].backward_input);
    std::int64_t& parameters = split ? sum.backward_parameters : sum.backward_input;
    parameters = summed(parameters, costs[l].backward_parameters);
  }
  return sum;
}

// Not constexpr: a constant evaluation that reaches it ends, and the compiler shows the call with its numbers.
[[noreturn]] inline void too_large_for_a_constant_so_call_it_at_run_time(int stages, int micro_batches) {
  throw_error({"stages is ", stages, " and micro_batches is ", micro_batches, ", too many for one constant evaluation"},
              {"call it at run time, as describe<plan>() does"});
}

/// The times of a stage that recomputes layers: the layers that backward needs first run before the gradient arrives,
/// and parameter parts that read recomputed values come with the input parts. Returns whether there are any.
constexpr bool add_recomputes(const layer_cost* costs, const stage_view& stage, bool split, stage_times& times) {
  const int first = stage.first_recomputed();
  if (first < 0) return false;
  times.recompute = 0;
  for (int l = stage.first(); l < stage.last(); ++l) {
    if (stage.recomputed(l)) {
      std::int64_t& sum = stage.recomputed_before(l) == first ? times.recompute : times.backward_input;
      sum = summed(sum, costs[l].forward);
    }
    if (split && stage.reads_recomputed(l)) {
      times.backward_input = summed(times.backward_input, costs[l].backward_parameters);
      times.backward_parameters -= costs[l].backward_parameters;
    }
  }
  return true;
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

/// The times of a link's transfers for one micro-batch. Between stages of one process memory carries them, at once.
constexpr pass_cost transfer_cost_of(const network& net, const plan_options& o, const cut& cut,
                                     const stage_link& over) {
  const bool one_process = o.device_count > 0 && o.devices[over.source].process >= 0 &&
                           o.devices[over.source].process == o.devices[over.target].process;
  return one_process ? pass_cost{} : link_cost_of(traffic_of(net, cut, over, o.micro_batch_size), o.device);
}

/// The length of a step of a cut model, in picoseconds, by simulation. `kept(s)` is the number of working sets of a
/// stage, for recompute as needed.
template <scheduler Schedule, class Kept>
GPIPE_COLD constexpr std::int64_t makespan_of(const network& net, const plan_options& o, const Schedule& schedule,
                                              const stage_costs& costs, const cut& cut, const stage_link* links,
                                              int link_count, const Kept& kept) {
  const detail::zeroed_array<stage_times> times(o.stages);
  const detail::zeroed_array<int> working_sets(o.stages);
  const detail::zeroed_array<bool> by_layer(o.stages);
  const detail::zeroed_array<link_times> transfers(link_count);
  const bool split = detail::splits_backward(schedule, o.stages, o.micro_batches);
  for (int s = 0; s < o.stages; ++s) {
    times[s] = detail::times_of(costs.of(s), cut.first[s], cut.first[s + 1], split);
    by_layer[s] = detail::add_recomputes(costs.of(s), stage_view(net, cut, s), split, times[s]);
    if (o.recompute_whole() == recompute_mode::as_needed) working_sets[s] = kept(s);
  }
  for (int i = 0; o.cost_transfers && i < link_count; ++i) {
    const pass_cost time = transfer_cost_of(net, o, cut, links[i]);
    transfers[i] = {time.forward, time.backward};
  }
  return simulate(schedule, {o.stages,
                             o.micro_batches,
                             {o.recompute_whole(), working_sets.data(), by_layer.data()},
                             times.data(),
                             links,
                             link_count,
                             o.cost_transfers ? transfers.data() : nullptr});
}
template <scheduler Schedule, class Kept>
constexpr std::int64_t makespan_of(const network& net, const plan_options& o, const Schedule& schedule,
                                   const stage_costs& costs, const cut& cut, const Kept& kept) {
  const link_list links(net, cut);
  return makespan_of(net, o, schedule, costs, cut, links.data(), links.count(), kept);
}

}  // namespace gpipe::detail
