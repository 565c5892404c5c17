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
#include <gpipe/plan/cut/choose_warmup.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/gradient_grouping.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/recompute/decide_stages.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
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
  const int S = plan.stages(), M = plan.micro_batches(), late = on_the_way(plan.options.cost_transfers);
  const auto count = static_cast<std::size_t>(M);
  tick_index<schedule_choice> table(chosen, S, M, plan.group_gradients);
  for (const stage_link& link : plan.links) {
    link_slots& assignment =
        plan.slots_of_links.emplace_back(link_slots{std::vector<int>(count), std::vector<int>(count)});
    assign_link_slots(table, link, late, assignment.stash.data(), assignment.returned.data());
  }
  for (int s = 0; s < S; ++s) {
    stage_slots& assignment = plan.slots_of_stages.emplace_back();
    for (auto* memory_slots : {&assignment.entering, &assignment.forward, &assignment.backward, &assignment.held})
      memory_slots->resize(count);
    stash_slots(table, s, s, assignment.entering.data());
    working_set_slots(chosen, S, M, choice, s, assignment.forward.data(), assignment.backward.data());
    if (plan.requirements(s).split) held_slots(table, s, assignment.held.data());
  }
}

GPIPE_COLD inline void lower_programs(step_plan& plan, const schedule_choice& chosen, const recompute_choice& choice) {
  const auto lower_all = [&](schedule_choice schedule, std::vector<std::vector<instruction>>& programs) {
    const step_programs<schedule_choice> lowered(schedule, plan.stages(), plan.micro_batches(), choice,
                                                 plan.links.data(), static_cast<int>(plan.links.size()),
                                                 send_mode::buffered, schedule.trains ? plan.group_gradients : 1);
    for (int w = 0; w < lowered.workers(); ++w)
      programs.emplace_back(lowered.views()[w].lines, lowered.views()[w].lines + lowered.views()[w].length);
  };
  lower_all(chosen, plan.programs);
  lower_all(chosen.forwards(), plan.forward_programs);
}

/// Runs the programs that the workers will run, in the slots that their channels have.
GPIPE_COLD inline void require_programs(const step_plan& plan, const schedule_choice& chosen,
                                        const recompute_choice& choice) {
  const int S = plan.stages(), M = plan.micro_batches(), count = static_cast<int>(plan.links.size());
  std::vector<int> stash, returned, copies, worker_of, in_flight;
  for (std::size_t k = 0; k < plan.links.size(); ++k) {
    const auto& [source, target, gradient] = plan.links[k];
    const link_slots& assignment = plan.slots_of_links[k];
    stash.insert(stash.end(), assignment.stash.begin(), assignment.stash.end());
    returned.insert(returned.end(), assignment.returned.begin(), assignment.returned.end());
    copies.push_back(plan.requirements(target).stash.from(target - source));
    copies.push_back(plan.requirements(source).returned.from(target - source));
  }
  tick_index<schedule_choice> table(chosen, S, M, plan.group_gradients);
  const zeroed_array<bool> recomputed(S * M);
  for (int s = 0; s < S; ++s) {
    worker_of.push_back(plan.worker_of(s));
    in_flight.push_back(chosen.in_flight(S, M, s));
    flag_recomputing(table, choice, s, recomputed.data() + s * M);
  }
  expected_step expected{
      S, M, plan.links.data(), count, plan.trains, recomputed.data(), in_flight.data(), worker_of.data()};
  expected.memory_slots = {stash.data(), returned.data(), copies.data()};
  expected.ties = !plan.ties.empty();
  const auto require = [&](const std::vector<std::vector<instruction>>& programs, const char* pass) {
    std::vector<program_view> views;
    for (const auto& program : programs) views.push_back({program.data(), static_cast<int>(program.size())});
    const check_result found = check(expected, views.data(), static_cast<int>(views.size()));
    if (!found.ok())
      throw_error({"a program ", pass, " does not run in the plan's slots: ", gpipe::describe(found)},
                  {"choose another schedule"});
  };
  require(plan.programs, "that trains");
  expected.trains = expected.ties = false;
  expected.recomputed = nullptr;
  expected.in_flight = nullptr;
  require(plan.forward_programs, "that only runs forward");
}

GPIPE_COLD inline void set_shares(step_plan& plan, const schedule_choice& chosen) {
  std::vector<std::int64_t> times;
  std::int64_t total = 0;
  for (int s = 0; s < plan.stages(); ++s) {
    times.push_back(time_in(chosen, plan.options, plan.costs(), plan.cut(), s));
    total += times.back();
  }
  for (const std::int64_t time : times)
    plan.shares.push_back(total == 0 ? 0 : static_cast<double>(time) / static_cast<double>(total));
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
  if (!recomputes_layers(plan.recomputed_before.data(), net.layer_count)) plan.recomputed_before.clear();
  std::vector<int> working_sets;
  const zeroed_array<bool> by_layer(plan.stages());
  for (int s = 0; s < plan.stages(); ++s) {
    working_sets.push_back(plan.requirements(s).kept_copies);
    by_layer[s] = stage_view(net, plan.cut(), s).first_recomputed() >= 0;
    plan.workers_of_stages.push_back(chosen.worker_of(plan.stages(), s));
  }
  const recompute_choice choice{
      plan.options.recompute_whole(),
      plan.options.recompute_whole() == recompute_mode::as_needed ? working_sets.data() : nullptr, by_layer.data()};
  lay_out_arenas(net, plan);
  assign_slots(plan, chosen, choice);
  lower_programs(plan, chosen, choice);
  place_workers(plan);
  require_programs(plan, chosen, choice);
  set_shares(plan, chosen);
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
        step(makespan_of(net, plan.options, plan.options.chosen_schedule(), plan.costs(), plan.cut(), plan.links.data(),
                         static_cast<int>(plan.links.size()),
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
