#pragma once

// The plan of a model of another framework: the planner's, or one that it finds for fewer micro-batches, with layers
// moved from any stage to any other.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../planner.hpp"
#include "framework.hpp"
#include "layers.hpp"

namespace example {

using namespace gpipe;

/// As many blocks in each stage, to one: the cut without a plan.
inline cut_list even_cut(const framework_layers& model, int stages) {
  const int blocks = model.count(layer_role::block);
  cut_list first{0};
  for (int s = 1; s < stages; ++s) first.push_back(1 + static_cast<int>(std::int64_t{s} * blocks / stages));
  first.push_back(static_cast<int>(model.roles.size()));
  return first;
}

inline cut_list cut_of(const planned& plan) {
  cut_list first;
  for (const planned_stage& s : plan.stages) first.push_back(s.first);
  first.push_back(plan.stages.back().last);
  return first;
}

/// Moves one layer at a time from any stage to any other, while that makes a step shorter: the stages between keep
/// their lengths. `tries`: of cuts to simulate.
inline cut_list moved(const planner& plans, cut_list best, int tries) {
  const int stages = static_cast<int>(best.size()) - 1;
  std::int64_t shortest = plans.step_time(best);
  for (bool helped = true; helped;) {
    helped = false;
    for (int from = 0; from < stages; ++from)
      for (int to = 0; to < stages; ++to) {
        const auto at = static_cast<std::size_t>(from);
        if (to == from || best[at + 1] - best[at] < 2) continue;
        if (--tries < 0) return best;
        cut_list first = best;
        for (int s = std::min(from, to) + 1; s <= std::max(from, to); ++s)
          first[static_cast<std::size_t>(s)] += from < to ? -1 : 1;
        const std::int64_t time = plans.step_time(first);
        if (time >= shortest) continue;
        shortest = time;
        best = std::move(first);
        helped = true;
      }
  }
  return best;
}

/// Blocks are equal, so that many cuts have the same bottleneck, and only a simulated step shows which is better. In a
/// second the planner simulates few steps of many micro-batches, but many of few, and a good cut for these is mostly
/// good for those.
inline planned moved_plan(const subject& it, const choice& how) {
  planner plans(it, how);
  planned best = plans.plan();
  cut_list first = cut_of(best);
  for (const int groups : {1, 2}) {
    choice few = how;
    few.micro_batches = groups * how.order().workers(how.stages);
    if (few.micro_batches >= how.micro_batches || best.makespan <= best.bound) break;
    planner shorter(it, few);
    const int tries = static_cast<int>(std::min(5000.0, 1e7 / (8.0 * few.stages * few.micro_batches)));
    for (const cut_list& begin : {cut_of(shorter.plan()), cut_of(best)}) {
      const cut_list found = moved(shorter, begin, tries);
      if (plans.step_time(found) < plans.step_time(first)) first = found;
    }
  }
  return plans.plan_of(first);
}

}  // namespace example
