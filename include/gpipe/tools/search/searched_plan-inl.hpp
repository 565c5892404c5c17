#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/make_plan-inl.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/tools/search/plan_pipeline.hpp>
#include <gpipe/tools/search/searched_schedule.hpp>

namespace gpipe::detail {

/// Plans with a table that is searched for the stages. The cut comes from the plan of a known schedule: with a memory
/// limit, from each that fits, because they recompute differently; without one, from the one with the shortest step. A
/// table is searched for each cut, and the shortest step wins. So no schedule of the library is shorter. A table whose
/// stages do not fit, because the search counts bytes roughly, is discarded.
GPIPE_COLD GPIPE_INLINE step_plan searched_plan::make(const network& net, plan_options options,
                                                      const std::span<const int>* cut) {
  options.custom_schedule = nullptr;
  require_valid(options, net.layer_count);
  std::vector<timed_plan> known = plan_all_known(net, options, cut);
  const std::size_t tried = options.limits_memory() ? known.size() : 1;
  timed_plan best = known.front();
  for (std::size_t i = 0; i < tried; ++i) {
    const step_plan& plan = known[i].plan;
    const plan_pipeline stages(net, plan);
    const auto found = std::make_shared<const searched_schedule>(stages.view(), 1.0 / static_cast<double>(tried));
    options.custom_schedule = &found->schedule();
    const std::vector<int> boundaries(plan.first.begin() + 1, plan.first.end() - 1);
    const std::span<const int> same_cut(boundaries);
    try {
      timed_plan made(net, plan_known(net, options, &same_cut));
      if (made.step >= best.step) continue;
      best = std::move(made);
    } catch (const error&) {
      if (!options.limits_memory()) throw;
      continue;
    }
    best.plan.table = found;
    best.plan.table_gap = found->gap();
  }
  return std::move(best.plan);
}

}  // namespace gpipe::detail
