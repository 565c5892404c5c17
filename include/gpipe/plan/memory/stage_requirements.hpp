#pragma once

#include <cstdint>

#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/memory/stage_plan.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe {

constexpr std::int64_t stage_plan::count(const stage_view& stage, const memory_requirements& needs) {
  if (!counted || requirements != needs) memory = memory_of(stage, needs);
  requirements = needs;
  counted = true;
  return memory.total();
}

namespace detail {

/// Sets what a stage's memory depends on. As needed: as many working sets as the limit allows, at most one for each
/// micro-batch in flight.
template <scheduler Schedule>
GPIPE_COLD constexpr void set_requirements(const plan_options& o, const Schedule& schedule, const stage_view& stage,
                                           stage_plan& plan) {
  memory_requirements needs = requirements_of(schedule, o, stage);
  if (o.recompute == recompute_mode::as_needed)
    needs.kept_copies =
        max_working_sets(needs, [&, limit = o.limit_of(stage.stage())](const memory_requirements& with) {
          return limit == no_memory_limit || plan.count(stage, with) <= limit;
        });
  plan.first = stage.first();
  plan.last = stage.last();
  plan.counted = plan.counted && plan.requirements == needs;
  plan.requirements = needs;
}

/// Counts the bytes of a stage, unless an earlier step has.
GPIPE_COLD constexpr void count_memory(const stage_view& stage, stage_plan& plan) {
  plan.count(stage, plan.requirements);
}

}  // namespace detail

}  // namespace gpipe
