#pragma once

// Plans a network for one choice, as a training plans it: `make_plan`, and its step.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/program/simulate.hpp>

#include "planned.hpp"

namespace example {

using namespace gpipe;

/// The share of all workers' time in which they wait.
inline double idle_share(const std::vector<std::int64_t>& idle, std::int64_t makespan) {
  double waits = 0;
  for (const std::int64_t time : idle) waits += static_cast<double>(time);
  return makespan > 0 ? waits / static_cast<double>(makespan) / static_cast<double>(idle.size()) : 0;
}

/// Times in nanoseconds. `cut` is empty, or the first layer of every stage but the first. Throws if there is no such
/// plan.
inline planned plan_network(const network& net, const plan_options& options, const std::vector<int>& cut = {}) {
  const step_plan p = make_plan(net, options, cut);
  const plan_options o = p.resolved_options();
  const schedule_choice schedule = p.options.chosen_schedule();
  const bool split = schedule.trains && gpipe::detail::splits_backward(schedule, o.stages, o.micro_batches);
  const auto S = static_cast<std::size_t>(o.stages);
  std::vector<stage_times> times;
  std::vector<int> kept;
  const gpipe::detail::zeroed_array<bool> by_layer(o.stages);
  for (int s = 0; s < o.stages; ++s) {
    const auto at = static_cast<std::size_t>(s);
    times.push_back(gpipe::detail::times_of(p.costs().of(s), p.first[at], p.first[at + 1], split));
    by_layer[s] = gpipe::detail::add_recomputes(p.costs().of(s), stage_view(net, p.cut(), s), split, times[at]);
    kept.push_back(p.requirements(s).kept_copies);
  }
  std::vector<link_times> transfers;
  for (const stage_link& link : p.links) {
    const auto carried = gpipe::detail::traffic_of(net, p.cut(), link, o.micro_batch_size);
    const pass_cost time = o.cost_transfers ? gpipe::detail::link_cost_of(carried, o.device) : pass_cost{};
    transfers.push_back({time.forward, time.backward});
  }
  constexpr std::int64_t ps = 1000;  // of a nanosecond
  planned found;
  found.workers = p.workers();
  std::vector<std::int64_t> idle(static_cast<std::size_t>(found.workers));
  const auto record = [&](const instruction& it, std::int64_t from, std::int64_t to) {
    const bool whole = it.kind == action_kind::backward_input && !split;  // the parameters' part takes no time
    if (to > from)
      found.events.push_back(
          {from / ps, to / ps, whole ? action_kind::backward : it.kind, it.stage, it.micro_batch, -1});
  };
  found.makespan = simulate(schedule,
                            {o.stages,
                             o.micro_batches,
                             {o.recompute_whole(), kept.data(), by_layer.data()},
                             times.data(),
                             p.links.data(),
                             static_cast<int>(p.links.size()),
                             transfers.data()},
                            {.idle = idle.data()}, record);
  found.idle = idle_share(idle, found.makespan);
  const gpipe::detail::cut_quality quality = gpipe::detail::quality_of_cut(net, p.options, p.costs(), p.first.data());
  found.makespan /= ps;
  found.bound = quality.min / ps;
  for (std::size_t s = 0; s < S; ++s)
    found.stages.push_back({p.first[s], p.first[s + 1], times[s].forward / ps,
                            (times[s].backward_input + times[s].backward_parameters) / ps,
                            p.memory(static_cast<int>(s)).total(), p.worker_of(static_cast<int>(s))});
  return found;
}

}  // namespace example
