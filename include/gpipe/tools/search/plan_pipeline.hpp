#pragma once

#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/tools/search/pipeline.hpp>

namespace gpipe {

/// The stages of a plan as a pipeline for a search: their predicted times, transfers between neighbours if the plan's
/// options count them, and, with a memory limit, the bytes of one more micro-batch and the bytes left for
/// micro-batches.
///
/// The plan's schedule gives each worker one stage, or two as a V; the search has all of these workers, even if the
/// plan folds them onto fewer. It ignores links that skip stages, and recomputes every micro-batch of a stage that
/// recomputes any. Times are in picoseconds.
class plan_pipeline {
 public:
  GPIPE_COLD plan_pipeline(const network& net, const step_plan& plan) {
    const schedule_choice schedule = plan.options.chosen_schedule().on_workers(0);
    pipeline_.workers = schedule.workers(plan.stages());
    pipeline_.micro_batches = plan.micro_batches();
    pipeline_.placed = plan.stages() == pipeline_.workers ? placement::one_each : placement::v;
    for (int s = 0; s < plan.stages(); ++s)
      if (const int worker = schedule.worker_of(plan.stages(), s);
          pipeline_.stage_count() != plan.stages() || pipeline_.worker_of(s) != worker)
        detail::throw_error({"the schedule is ", plan.schedule, ", and worker ", worker, " has stage ", s},
                            {"plan with one that gives each worker one stage, such as zb_h1, or two as a V, such as "
                             "zb_v"});
    limits_.assign(detail::index(pipeline_.workers), 0);
    bool limited = false;
    for (int s = 0; s < plan.stages(); ++s) limited = add_stage(stage_view(net, plan.cut(), s), plan) || limited;
    for (int s = 0; s + 1 < plan.stages(); ++s) {
      const pass_cost time = detail::transfer_cost_of(net, plan.options, plan.cut(), {s, s + 1});
      transfers_.push_back({time.forward, time.backward});
    }
    pipeline_.stages = stages_.data();
    if (plan.options.cost_transfers) pipeline_.transfers = transfers_.data();
    if (limited) pipeline_.limits = limits_.data();
  }
  plan_pipeline(const plan_pipeline&) = delete;
  plan_pipeline& operator=(const plan_pipeline&) = delete;

  const searched_pipeline& view() const { return pipeline_; }

 private:
  /// Returns whether the stage has a limit.
  GPIPE_COLD bool add_stage(const stage_view& stage, const step_plan& plan) {
    const int s = stage.stage();
    const layer_cost* const costs = plan.costs().of(s);
    stage_times times = detail::times_of(costs, stage.first(), stage.last(), true);
    const bool by_layer = detail::add_recomputes(costs, stage, true, times);
    const memory_requirements needs = plan.requirements(s);
    if (by_layer) times.backward_input += times.recompute;
    else if (needs.kept_copies < needs.in_flight) times.backward_input += times.forward;
    const std::int64_t total = memory_of(stage, needs).total();
    memory_requirements more = needs;
    ++more.in_flight;
    if (needs.kept_copies == needs.in_flight) ++more.kept_copies;
    if (needs.held > 0) ++more.held;
    if (needs.stash.next > 0) ++more.stash.next;
    const std::int64_t bytes = memory_of(stage, more).total() - total;
    stages_.push_back({times.forward, times.backward_input, times.backward_parameters, bytes, bytes});
    const std::int64_t limit = plan.options.limit_of(s);
    std::int64_t& left = limits_[detail::index(pipeline_.worker_of(s))];
    if (limit == no_memory_limit) {
      left += (std::int64_t{1} << 60) / pipeline_.workers;
      return false;
    }
    left += limit - total + needs.in_flight * bytes;
    return true;
  }

  std::vector<searched_stage> stages_;
  std::vector<link_times> transfers_;
  std::vector<std::int64_t> limits_;
  searched_pipeline pipeline_;
};

}  // namespace gpipe
