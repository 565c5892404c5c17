#pragma once

#include <cstddef>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/complete_plan.hpp>
#include <gpipe/plan/constant_plan.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe::detail {

/// Chooses the packed weights with which a stage obeys its limit with this optimizer, as `recompute_search` does.
GPIPE_COLD inline void choose_packed_weights(const network& net, step_plan& plan) {
  for (int s = 0; s < plan.stages(); ++s) {
    memory_requirements& needs = plan.stage_plans[static_cast<std::size_t>(s)].requirements;
    const stage_view stage(net, plan.cut(), s);
    needs.packed = default_packing(plan.options, needs, stage);
    if (may_pack_on_the_way(plan.options, s) && memory_of(stage, needs).total() > plan.options.limit_of(s))
      needs.packed = packed_weights::on_the_way;
  }
}

GPIPE_COLD GPIPE_INLINE step_plan plan_from(const plan_constants& constants, const network& net,
                                            const plan_options& options) {
  const int S = options.stages, M = options.micro_batches;
  if (constants.cut.first[S] != net.layer_count)
    throw_error(
        {"the plan is of a model of ", constants.cut.first[S], " layers, and the trainer's has ", net.layer_count},
        {"plan the trainer's model"});
  step_plan plan;
  plan.options = options;
  plan.schedule = constants.schedule;
  plan.trains = constants.trains;
  plan.group_gradients = constants.group_gradients;
  plan.workers_of_stages.assign(constants.workers_of_stages, constants.workers_of_stages + S);
  plan.first.assign(constants.cut.first, constants.cut.first + S + 1);
  if (constants.cut.recomputed_before != nullptr)
    plan.recomputed_before.assign(constants.cut.recomputed_before, constants.cut.recomputed_before + net.layer_count);
  plan.links.assign(constants.links, constants.links + constants.link_count);
  const auto next = [M](const int*& position) {
    position += M;
    return std::vector<int>(position - M, position);
  };
  for (const int *position = constants.slots_of_links, *end = position + 2 * constants.link_count * M;
       position != end;) {
    link_slots& assignment = plan.slots_of_links.emplace_back();
    assignment.stash = next(position), assignment.returned = next(position);
  }
  for (const int *position = constants.slots_of_stages, *end = position + 4 * S * M; position != end;) {
    stage_slots& assignment = plan.slots_of_stages.emplace_back();
    assignment.entering = next(position), assignment.forward = next(position), assignment.backward = next(position),
    assignment.held = next(position);
  }
  plan.programs = programs_from(constants.programs, constants.workers);
  plan.forward_programs = programs_from(constants.forward_programs, constants.workers);
  place_workers(plan);
  plan.stage_plans.assign(constants.stages, constants.stages + S);
  for (stage_plan& stage : plan.stage_plans) {
    memory_requirements& needs = stage.requirements;
    needs.moments = needs.trains ? options.optimizer_moments : 0;
    needs.tensor_rule = needs.trains ? options.tensor_rule : nullptr;
    needs.averages = needs.trains && options.average_weights;
    if (!options.packs_on_the_way) needs.rows_on_the_way = 0;
    stage.counted = false;
  }
  plan.costs_of_layers.assign(constants.costs, constants.costs + constants.cost_count);
  plan.shares.assign(constants.shares, constants.shares + S);
  connect_stages(net, plan);
  if (options.limits_memory()) choose_packed_weights(net, plan);
  lay_out_arenas(net, plan);
  return plan;
}

}  // namespace gpipe::detail
