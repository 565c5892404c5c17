#pragma once

// Memory limits by a share of the activations, and the slowest stage of a plan with what it recomputes.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>

namespace bench {

inline std::int64_t activations_of(const gpipe::stage_memory& m) {
  using enum gpipe::memory_kind;
  return m.of(kept) + m.of(transient) + m.of(held);
}

/// The limit with which every stage of a plan that recomputes nothing could have this share of its activations.
inline std::int64_t limit_for(const gpipe::step_plan& never, double share) {
  std::int64_t limit = 0;
  for (int s = 0; s < never.stages(); ++s) {
    const gpipe::stage_memory& m = never.memory(s);
    limit =
        std::max(limit, m.total() - static_cast<std::int64_t>((1 - share) * static_cast<double>(activations_of(m))));
  }
  return limit;
}

/// The predicted time of a micro-batch in the slowest stage: forward, backward and recomputes.
inline std::int64_t bottleneck_of(const gpipe::network& net, const gpipe::step_plan& p) {
  std::vector<gpipe::memory_requirements> needs;
  for (int s = 0; s < p.stages(); ++s) needs.push_back(requirements_of(p.options.chosen_schedule(), p.options, s));
  const gpipe::stage_costs costs = p.costs();
  gpipe::detail::recompute_search search(net, p.options, costs, needs.data());
  const bool all = p.options.recompute == gpipe::recompute_mode::always;
  std::int64_t slowest = 0;
  for (int s = 0; s < p.stages(); ++s) {
    std::int64_t time = all ? 0 : search.decide(p.first.data(), s, p.options.limit_of(s)).time / p.micro_batches();
    for (int l = p.first[static_cast<std::size_t>(s)]; l < p.first[static_cast<std::size_t>(s) + 1]; ++l) {
      const gpipe::layer_cost& c = costs.of(s)[l];
      time += (all ? 2 : 1) * c.forward + c.backward_input + c.backward_parameters;
    }
    slowest = std::max(slowest, time);
  }
  return slowest;
}

}  // namespace bench
