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
  std::vector<std::vector<instruction>> all;
  for (int w = 0; w < workers; ++w) all.emplace_back(views[w].lines, views[w].lines + views[w].length);
  return all;
}

/// The packed weights with which a stage obeys its limit with this optimizer, as `recompute_search` chooses them.
GPIPE_COLD inline void choose_packed_weights(const network& net, step_plan& p) {
  for (int s = 0; s < p.stages(); ++s) {
    memory_requirements& needs = p.stage_plans[static_cast<std::size_t>(s)].requirements;
    const stage_view stage(net, p.cut(), s);
    needs.packed = default_packing(p.options, needs, stage);
    if (may_pack_on_the_way(p.options, s) && memory_of(stage, needs).total() > p.options.limit_of(s))
      needs.packed = packed_weights::on_the_way;
  }
}

GPIPE_COLD GPIPE_INLINE step_plan plan_from(const plan_constants& of, const network& net, const plan_options& options) {
  const int S = options.stages, M = options.micro_batches;
  if (of.cut.first[S] != net.layer_count)
    throw_error({"the plan is of a model of ", of.cut.first[S], " layers, and the trainer's has ", net.layer_count},
                {"plan the trainer's model"});
  step_plan p;
  p.options = options;
  p.schedule = of.schedule;
  p.trains = of.trains;
  p.group_gradients = of.group_gradients;
  p.workers_of_stages.assign(of.workers_of_stages, of.workers_of_stages + S);
  p.first.assign(of.cut.first, of.cut.first + S + 1);
  if (of.cut.recomputed_before != nullptr)
    p.recomputed_before.assign(of.cut.recomputed_before, of.cut.recomputed_before + net.layer_count);
  p.links.assign(of.links, of.links + of.link_count);
  const auto next = [M](const int*& from) {
    from += M;
    return std::vector<int>(from - M, from);
  };
  for (const int *at = of.slots_of_links, *end = at + 2 * of.link_count * M; at != end;) {
    link_slots& its = p.slots_of_links.emplace_back();
    its.stash = next(at), its.returned = next(at);
  }
  for (const int *at = of.slots_of_stages, *end = at + 4 * S * M; at != end;) {
    stage_slots& its = p.slots_of_stages.emplace_back();
    its.entering = next(at), its.forward = next(at), its.again = next(at), its.held = next(at);
  }
  p.programs = programs_from(of.programs, of.workers);
  p.forward_programs = programs_from(of.forward_programs, of.workers);
  place_workers(p);
  p.stage_plans.assign(of.stages, of.stages + S);
  for (stage_plan& stage : p.stage_plans) {
    memory_requirements& needs = stage.requirements;
    needs.moments = needs.trains ? options.optimizer_moments : 0;
    needs.tensor_rule = needs.trains ? options.tensor_rule : nullptr;
    needs.averages = needs.trains && options.average_weights;
    if (!options.packs_on_the_way) needs.rows_on_the_way = 0;
    stage.counted = false;
  }
  p.costs_of_layers.assign(of.costs, of.costs + of.cost_count);
  p.shares.assign(of.shares, of.shares + S);
  connect_stages(net, p);
  if (options.limits_memory()) choose_packed_weights(net, p);
  lay_out_arenas(net, p);
  return p;
}

}  // namespace gpipe::detail
