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

GPIPE_COLD inline std::vector<std::vector<instruction>> programs_from(const program_view* views, int workers) {
  std::vector<std::vector<instruction>> programs;
  for (int w = 0; w < workers; ++w) programs.emplace_back(views[w].lines, views[w].lines + views[w].length);
  return programs;
}

/// Chooses the packed weights with which a stage obeys its limit with this optimizer, as `recompute_search` does.
GPIPE_COLD inline void choose_packed_weights(const network& net, step_plan& p) {
  for (int s = 0; s < p.stages(); ++s) {
    memory_requirements& needs = p.stage_plans[static_cast<std::size_t>(s)].requirements;
    const stage_view stage(net, p.cut(), s);
    needs.packed = default_packing(p.options, needs, stage);
    if (may_pack_on_the_way(p.options, s) && memory_of(stage, needs).total() > p.options.limit_of(s))
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
  step_plan p;
  p.options = options;
  p.schedule = constants.schedule;
  p.trains = constants.trains;
  p.group_gradients = constants.group_gradients;
  p.workers_of_stages.assign(constants.workers_of_stages, constants.workers_of_stages + S);
  p.first.assign(constants.cut.first, constants.cut.first + S + 1);
  if (constants.cut.recomputed_before != nullptr)
    p.recomputed_before.assign(constants.cut.recomputed_before, constants.cut.recomputed_before + net.layer_count);
  p.links.assign(constants.links, constants.links + constants.link_count);
  const auto next = [M](const int*& position) {
    position += M;
    return std::vector<int>(position - M, position);
  };
  for (const int *position = constants.slots_of_links, *end = position + 2 * constants.link_count * M;
       position != end;) {
    link_slots& slots = p.slots_of_links.emplace_back();
    slots.stash = next(position), slots.returned = next(position);
  }
  for (const int *position = constants.slots_of_stages, *end = position + 4 * S * M; position != end;) {
    stage_slots& slots = p.slots_of_stages.emplace_back();
    slots.entering = next(position), slots.forward = next(position), slots.backward = next(position),
    slots.held = next(position);
  }
  p.programs = programs_from(constants.programs, constants.workers);
  p.forward_programs = programs_from(constants.forward_programs, constants.workers);
  place_workers(p);
  p.stage_plans.assign(constants.stages, constants.stages + S);
  for (stage_plan& stage : p.stage_plans) {
    memory_requirements& needs = stage.requirements;
    needs.moments = needs.trains ? options.optimizer_moments : 0;
    needs.tensor_rule = needs.trains ? options.tensor_rule : nullptr;
    needs.averages = needs.trains && options.average_weights;
    if (!options.packs_on_the_way) needs.rows_on_the_way = 0;
    stage.counted = false;
  }
  p.costs_of_layers.assign(constants.costs, constants.costs + constants.cost_count);
  p.shares.assign(constants.shares, constants.shares + S);
  connect_stages(net, p);
  if (options.limits_memory()) choose_packed_weights(net, p);
  lay_out_arenas(net, p);
  return p;
}

}  // namespace gpipe::detail
