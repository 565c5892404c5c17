#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan/complete_plan.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/plan_steps.hpp>
#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/recompute/decide_stages.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/check.hpp>

namespace gpipe {

namespace detail {

// The steps of `make_plan`, in order. The steps of a compile-time plan have the same names.

/// A plan has one line per action of each micro-batch in each stage, and an `int` counts them. Throws if an `int` is
/// too small, or if there is no memory for the plan: a program that runs out of it later may end without an error.
// Measured while a plan is made, in bytes per micro-batch: 148 to 165 with one stage, 837 to 847 with three.
// The memory is allocated and freed at once: the system refuses more than it has, and no page is touched.
GPIPE_COLD inline void require_countable(const plan_options& o) {
  constexpr std::int64_t max_lines = (std::numeric_limits<int>::max)(), lines_of_cell = 8;  // at most
  constexpr std::int64_t bytes_of_cell = 144, bytes_of_link = 192;                          // at least
  const std::int64_t S = o.stages, M = o.micro_batches, bytes = S * bytes_of_cell + (S - 1) * bytes_of_link;
  if (S * M > max_lines / lines_of_cell)
    throw_error({"stages x micro_batches is ", S, " x ", M, ", of at most ", lines_of_cell,
                 " actions each, more than an int counts"},
                {"choose at most ", max_lines / lines_of_cell / S, " micro-batches"});
  void* const memory = ::operator new(static_cast<std::size_t>(M * bytes), std::nothrow);
  ::operator delete(memory, std::nothrow);
  if (memory == nullptr)
    throw_error({"micro_batches is ", M, ": a plan of ", several(o.stages, "stage"), " needs ", M * bytes,
                 " bytes while it is made, and the system does not give them"},
                {"choose fewer micro-batches"});
}

/// A plan with its options and costs; the cut follows.
GPIPE_COLD inline step_plan uncut_plan(const network& net, const plan_options& options) {
  require_valid(options, net.layer_count);
  // assumes: half precision is bf16
  require_precision(net, options);
  require_layers(net, options.recompute_layers);
  require_countable(options);
  const auto S = static_cast<std::size_t>(options.stages);
  step_plan plan;
  plan.options = options;
  plan.options.precision = precision_of(net);
  plan.costs_of_layers.resize(static_cast<std::size_t>(cost_count(net, options)));
  plan.first.assign(S + 1, 0);
  plan.stage_plans.resize(S);
  fill_costs(net, plan.options, plan.costs_of_layers.data());
  plan.first.back() = net.layer_count;
  return plan;
}

// change: the cut search; its call at run time
GPIPE_COLD inline void search_cut(const network& net, step_plan& plan) {
  plan.options.warmup = choose_warmup(net, plan.options);
  const plan_options& o = plan.options;
  const schedule_choice schedule = o.chosen_schedule();
  const stage_costs costs = plan.costs();
  const cut_search found = gpipe::search_cut(net, o, schedule, costs, plan.first.data());
  if (found.fits) return shorten_step(net, o, costs, found.whole, plan.first.data());
  const zeroed_array<std::int64_t> needed(o.stages);
  const auto [stage, more] = find_shortage(net, o, schedule, costs, needed.data());
  needed[stage] = o.limit_of(stage) + more;
  throw_no_cut(o, stage, needed.data());
}

/// For the author of a schedule: names the wrong cell and the remedy.
[[noreturn]] GPIPE_COLD inline void throw_unsound(const step_plan& plan, const schedule_choice& chosen,
                                                  const check_result& found) {
  const auto& [error, worker, tick, action] = found;
  const std::string schedule = concat({"the schedule's table is wrong: ", plan.schedule, ": "});
  if (action.kind == action_kind::idle)
    throw_error({schedule, "worker ", worker, " has no stage"}, {"let workers() count those of worker_of()"});
  std::string cell = concat({label_of(action, true).text(), " (", name_of(action.kind), ") of worker ", worker});
  if (error == fault::missing)
    throw_error({schedule, cell, " is missing"}, {"run every stage and micro-batch forward and backward once"});
  cell += concat({" at tick ", tick});
  if (error == fault::unknown)
    throw_error({schedule, cell, " is of a stage or micro-batch that this worker does not have"},
                {"choose a stage that worker_of() gives to the worker, and a micro-batch from 0 to ",
                 plan.micro_batches() - 1});
  if (error == fault::repeated)
    throw_error({schedule, cell, " ran before, or must not run"},
                {"run every stage and micro-batch forward and backward once"});
  if (error == fault::retirement)
    throw_error({schedule, cell, " has parameter gradients, which a stage makes in the order 0, 1, 2, ..."},
                {"run the backwards of a stage in ascending order of micro-batches"});
  if (error == fault::stash)
    throw_error({schedule, cell, ": the stage then holds the inputs of more micro-batches than in_flight(), which is ",
                 chosen.in_flight(plan.stages(), plan.micro_batches(), action.stage)},
                {"return more from in_flight(), or run backward earlier"});
  throw_error({schedule, cell, " runs before what it needs"},
              {"run it in a later tick than the cells whose outputs it reads"});
}

GPIPE_COLD inline void require_sound(const step_plan& plan, const schedule_choice& chosen) {
  const int S = plan.stages(), M = plan.micro_batches(), count = static_cast<int>(plan.links.size());
  const check_result checked = check_timetable(chosen, S, M, plan.links.data(), count);
  if (checked.ok()) return;
  std::string circle;
  find_cycle_of(chosen, S, M, plan.links.data(), count, [&circle](const waiting_worker& worker) {
    circle += (circle.empty() ? "" : ", for ") + gpipe::describe(worker);
  });
  if (!circle.empty())
    throw_error({"the schedule's workers wait in a circle: ", circle, ", for the first"},
                {"run what a cell needs before it, or choose another schedule"});
  throw_unsound(plan, chosen, checked);
}

GPIPE_COLD inline void assign_slots(step_plan& plan, const schedule_choice& chosen, const recompute_choice& choice) {
  const std::vector<int> none(static_cast<std::size_t>(plan.micro_batches()));
  tick_index<schedule_choice> table(chosen, plan.stages(), plan.micro_batches(), plan.group_gradients);
  for (const stage_link& link : plan.links) {
    link_slots& assignment = plan.slots_of_links.emplace_back(link_slots{none, none});
    assign_link_slots(table, link, on_the_way(plan.options.cost_transfers), assignment.stash.data(),
                      assignment.returned.data());
  }
  for (int s = 0; s < plan.stages(); ++s) {
    auto& [entering, forward, backward, held] = plan.slots_of_stages.emplace_back(stage_slots{none, none, none, none});
    assign_stage_slots(table, choice, s, plan.requirements(s).split, entering.data(), forward.data(), backward.data(),
                       held.data());
  }
}

/// Makes the programs of the workers, and runs them in the slots that their channels have.
GPIPE_COLD inline void make_programs(step_plan& plan, const schedule_choice& chosen, const recompute_choice& choice) {
  const int count = static_cast<int>(plan.links.size());
  std::vector<int> stash, returned, copies(2 * plan.links.size());
  for (std::size_t k = 0; k < plan.links.size(); ++k) {
    const auto& [activations, gradients] = plan.slots_of_links[k];
    stash.insert(stash.end(), activations.begin(), activations.end());
    returned.insert(returned.end(), gradients.begin(), gradients.end());
    set_copies(plan.stage_plans.data(), plan.links[k], copies.data() + 2 * k);
  }
  const auto make = [&](const schedule_choice& schedule, const recompute_choice& recompute, bool ties,
                        std::vector<std::vector<instruction>>& programs, const char* pass) {
    const check_result found = check_planned(
        schedule, plan.stages(), plan.micro_batches(), recompute, plan.links.data(), count,
        schedule.trains ? plan.group_gradients : 1, {stash.data(), returned.data(), copies.data()}, ties,
        [&programs](const program_view* views, int workers) { programs = programs_from(views, workers); });
    if (!found.ok())
      throw_error({"a program ", pass, " does not run in the plan's slots: ", gpipe::describe(found)},
                  {"choose another schedule"});
  };
  make(chosen, choice, !plan.ties.empty(), plan.programs, "that trains");
  make(chosen.forwards(), {}, false, plan.forward_programs, "that only runs forward");
}

/// Everything that follows from the cut.
GPIPE_COLD inline void complete_plan(const network& net, step_plan& plan) {
  if (plan.options.device_count > 0) {  // the caller's array may end before the plan
    plan.devices = std::make_shared<const std::vector<device_spec>>(plan.options.devices,
                                                                    plan.options.devices + plan.options.device_count);
    plan.options.devices = plan.devices->data();
  }
  const schedule_choice chosen = plan.options.chosen_schedule();
  plan.schedule = chosen.name();
  plan.trains = chosen.trains;
  plan_options grouped = plan.options;
  plan.group_gradients = grouped.group_gradients =
      choose_gradient_group(net, plan.options, chosen, plan.cut(), plan.stage_plans.data());
  find_links(net, plan.cut(), [&plan](const stage_link& l) { plan.links.push_back(l); });
  connect_stages(net, plan);
  require_sound(plan, chosen);
  plan.recomputed_before.resize(static_cast<std::size_t>(net.layer_count));
  decide_stages(net, grouped, chosen, plan.costs(), plan.first.data(), plan.stage_plans.data(),
                plan.recomputed_before.data());
  std::vector<int> working_sets;
  const zeroed_array<bool> by_layer(plan.stages());
  if (!mark_by_layer(net, plan.cut(), by_layer.data())) plan.recomputed_before.clear();
  for (int s = 0; s < plan.stages(); ++s) {
    working_sets.push_back(plan.requirements(s).kept_copies);
    plan.workers_of_stages.push_back(chosen.worker_of(plan.stages(), s));
  }
  const recompute_choice choice = recompute_in(plan.options, working_sets.data(), by_layer.data());
  lay_out_arenas(net, plan);
  assign_slots(plan, chosen, choice);
  make_programs(plan, chosen, choice);
  place_workers(plan);
  plan.shares.resize(plan.stage_plans.size());
  set_shares(chosen, plan.options, plan.costs(), plan.cut(), plan.shares.data());
}

/// Plans with a known schedule: with a given cut, or with the best one.
GPIPE_COLD inline step_plan plan_known(const network& net, const plan_options& options,
                                       const std::span<const int>* cut) {
  step_plan plan = uncut_plan(net, options);
  if (cut == nullptr) {
    search_cut(net, plan);
  } else {
    take_cut(cut->data(), static_cast<int>(cut->size()), net.layer_count, options.stages, plan.first.data());
    plan.options.warmup = choose_warmup(net, plan.options, plan.first.data());
  }
  complete_plan(net, plan);
  return plan;
}

/// A plan and its predicted step.
struct timed_plan {
  step_plan plan;
  std::int64_t step;

  timed_plan(const network& net, step_plan made)
      : plan(std::move(made)),
        step(makespan_of(net, plan.options, plan.options.chosen_schedule(), plan.costs(), plan.cut(),
                         [&](int s) { return plan.requirements(s).kept_copies; })) {}
};

/// The plans of the library's schedules with the stages of `o`'s workers, as far as they fit; the shortest step first.
/// Throws the last error if none fits.
GPIPE_COLD inline std::vector<timed_plan> plan_all_known(const network& net, plan_options o,
                                                         const std::span<const int>* cut) {
  const schedule_choice placed = o.chosen_schedule().on_workers(0);
  std::vector<timed_plan> plans;
  std::exception_ptr failure;
  for (const schedule_kind kind : schedule_kinds) {
    const schedule_choice known = schedule_choice(kind);
    // A fill-drain plan has more choices, and hardly ever a shorter step than a searched one.
    bool placed_alike = known.trains && kind != schedule_kind::fill_drain && known.admits(o.stages, o.micro_batches) &&
                        known.workers(o.stages) == placed.workers(o.stages);
    for (int s = 0; placed_alike && s < o.stages; ++s)
      placed_alike = known.worker_of(o.stages, s) == placed.worker_of(o.stages, s);
    if (!placed_alike) continue;
    o.schedule = kind;
    try {
      plans.emplace_back(net, plan_known(net, o, cut));
    } catch (const error&) {
      failure = std::current_exception();
    }
  }
  if (plans.empty()) std::rethrow_exception(failure);
  std::stable_sort(plans.begin(), plans.end(),
                   [](const timed_plan& a, const timed_plan& b) { return a.step < b.step; });
  return plans;
}

GPIPE_COLD inline step_plan plan_in_any_way(const network& net, const plan_options& o,
                                            const std::span<const int>* cut) {
  return o.schedule == schedule_kind::searched ? searched_plan::make(net, o, cut) : plan_known(net, o, cut);
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE step_plan make_plan(const network& net, const plan_options& options,
                                            const std::vector<int>& custom_cut) {
  if (!custom_cut.empty()) return plan_with_cut(net, options, custom_cut);
  return detail::plan_in_any_way(net, options, nullptr);
}

GPIPE_COLD GPIPE_INLINE step_plan plan_with_cut(const network& net, const plan_options& options,
                                                std::span<const int> cut) {
  return detail::plan_in_any_way(net, options, &cut);
}

namespace detail {

GPIPE_COLD inline plan_options options_of_job(plan_options options, int ranks) {
  if (ranks > 0) {
    options.separate_memory = true;
    const int ranks_of_replica = ranks / (options.replicas > 1 ? options.replicas : 1);
    const bool named = options.named_processes() > 0;  // the devices place every worker
    if (options.workers == 0 && !named && ranks_of_replica < options.max_workers()) options.workers = ranks_of_replica;
  }
  return options;
}

GPIPE_COLD GPIPE_INLINE step_plan plan_training(const network& net, const plan_options& options,
                                                std::span<const int> cut, int ranks) {
  return make_plan(net, options_of_job(options, ranks), std::vector<int>(cut.begin(), cut.end()));
}
GPIPE_COLD GPIPE_INLINE step_plan plan_training_with_cut(const network& net, const plan_options& options,
                                                         std::span<const int> cut, int ranks) {
  return plan_with_cut(net, options_of_job(options, ranks), cut);
}

}  // namespace detail

}  // namespace gpipe
