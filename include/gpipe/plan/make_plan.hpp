#pragma once

#include <span>
#include <vector>

#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan/choose_lead.hpp>
#include <gpipe/plan/gradient_grouping.hpp>
#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/simulated_cut.hpp>
#include <gpipe/plan/stage_plan.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/check.hpp>

namespace gpipe {

namespace detail {

/// The slot of memory of each micro-batch, for what goes over a link.
struct link_slots {
  std::vector<int> stash;     ///< of activations, in the stage that receives them
  std::vector<int> returned;  ///< of their gradients, in the stage that sent the activations
};

/// The slot of memory of each micro-batch in a stage.
struct stage_slots {
  std::vector<int> entering;        ///< of inputs of the model
  std::vector<int> forward, again;  ///< of the working set: in forward, and in recompute and backward
  std::vector<int> held;            ///< of gradients between backward's two parts
};

/// A parameter of a slot that uses the parameter of an earlier one.
struct tie {
  parameter_place owner, user;
};

}  // namespace detail

/// A plan made at run time by the steps that make it at compile time: cut, links, the slots of micro-batches, and the
/// memory of every stage.
struct step_plan {
  plan_options options;
  schedule_choice schedule;
  int coalesce = 1;        ///< micro-batches whose parameter gradients are computed together
  std::vector<int> first;  ///< slot of each stage, and the number of slots behind them
  std::vector<stage_link> links;
  std::vector<std::vector<int>> incoming, outgoing;  ///< links of each stage
  std::vector<detail::link_slots> slots_of_links;
  /// A forward-only pass uses the same slots, and frees them after forward.
  std::vector<detail::stage_slots> slots_of_stages;
  std::vector<int> each;  ///< 0 ... R M - 1: the slots of values that every micro-batch of all replicas has its own of
  std::vector<int> leaving;  ///< the slots of each micro-batch for values sent to workers that share no memory
  std::vector<detail::tie> ties;  ///< in model order of their users
  /// Of each worker: what it runs in a pass that trains, and in one that only runs forward.
  std::vector<std::vector<instruction>> programs, forward_programs;
  std::vector<stage_plan> stage_plans;
  std::vector<std::vector<detail::memory_block>> blocks;  ///< of each stage's arena
  std::vector<int> working_sets;           ///< of each stage, where recompute is as needed
  std::vector<layer_cost> costs_of_slots;  ///< [kind][slot], a micro-batch, in picoseconds

  stage_costs costs() const { return {costs_of_slots.data(), first.back(), options.device_count > 0}; }
  gpipe::cut cut() const { return {first.data(), options.stages}; }
  detail::recompute_choice recompute() const {
    return {options.recompute, options.recompute == recompute_mode::as_needed ? working_sets.data() : nullptr};
  }
  /// The options with the numbers that the plan has found for 0.
  plan_options resolved_options() const {
    plan_options resolved = options;
    resolved.workers = workers();
    resolved.coalesce = coalesce;
    return resolved;
  }
  int stages() const { return options.stages; }
  /// What the memory of a stage depends on.
  const memory_requirements& requirements(int stage) const { return of(stage).requirements; }
  /// Bytes of a stage, by kind.
  const stage_memory& memory(int stage) const { return of(stage).memory; }
  int workers() const { return schedule.workers(options.stages); }
  int worker_of(int stage) const { return schedule.worker_of(options.stages, stage); }
  int micro_batches() const { return options.micro_batches; }  ///< of each replica
  int all_micro_batches() const { return options.all_micro_batches(); }
  int replicas() const { return options.replicas; }
  int max_batch() const { return options.all_micro_batches() * options.micro_batch_size; }
  int min_batch() const { return options.replicas; }  ///< of a step: one for each replica
  /// A stage's share of the predicted time.
  double share(int stage) const {
    std::int64_t all = 0, mine = 0;
    for (int s = 0; s < options.stages; ++s)
      for (int l = cut().first[s]; l < cut().first[s + 1]; ++l) {
        const slot_cost cost = detail::cost_in(schedule, options, costs().of(s)[l]);
        all += cost.forward + cost.backward;
        if (s == stage) mine += cost.forward + cost.backward;
      }
    return all == 0 ? 0 : static_cast<double>(mine) / static_cast<double>(all);
  }

 private:
  const stage_plan& of(int stage) const { return stage_plans[static_cast<std::size_t>(stage)]; }
};

/// Plans a network: the best cut (see `search_cut` and `shorten_step`), or `custom_cut`, the first slot of every stage
/// but the first.
step_plan make_plan(const network& net, const plan_options& options, const std::vector<int>& custom_cut = {});
/// The same for a cut that is known, empty for one stage. A program that only calls this compiles no search for a cut.
step_plan plan_with_cut(const network& net, const plan_options& options, std::span<const int> cut);

#if GPIPE_BODIES

namespace detail {

// The steps of `make_plan`, in their order. Those of a compile-time plan have the same names.

GPIPE_COLD inline void require_precision(const network& net, const plan_options& o) {
  if (o.precision == precision::bf16 && precision_of(net) != precision::bf16)
    throw_error({"precision is bf16, and the network is in float32"},
                {"plan the network of in_bf16<model>, or make the trainer one of both_precisions<model>"});
}

/// A plan with its options and costs; the cut follows.
GPIPE_COLD inline step_plan uncut_plan(const network& net, const plan_options& options) {
  require_valid(options, net.slot_count);
  require_precision(net, options);
  const auto S = static_cast<std::size_t>(options.stages);
  step_plan p;
  p.options = options;
  p.options.precision = precision_of(net);
  p.costs_of_slots.resize(static_cast<std::size_t>(cost_count(net, options)));
  p.first.assign(S + 1, 0);
  p.incoming.resize(S);
  p.outgoing.resize(S);
  p.stage_plans.resize(S);
  fill_costs(net, p.options, p.costs_of_slots.data());
  p.first.back() = net.slot_count;
  return p;
}

GPIPE_COLD inline void search_cut(const network& net, step_plan& p) {
  p.options.lead = choose_lead(net, p.options);
  p.schedule = p.options.chosen_schedule();
  const plan_options& o = p.options;
  const stage_costs costs = p.costs();
  const cut_search found = gpipe::search_cut(net, o, p.schedule, costs, p.first.data());
  if (found.fits) return shorten_step(net, o, costs, found.whole, p.first.data());
  throw_error({"memory_limit is ", chosen_size(static_cast<std::uint64_t>(o.memory_limit)), ": no cut into ",
                several(o.stages, "stage"), " fits"},
              {"choose at least ", min_memory_limit(net, o, p.schedule, costs), " bytes",
               o.coalesce > 1                           ? ", or coalesce 0, which may need fewer"
               : o.recompute == recompute_mode::never ? ", or recompute as-needed, which may need fewer"
                                                      : ""});
}

GPIPE_COLD inline void link_stages(const network& net, step_plan& p) {
  for (int l = 0; l < net.slot_count; ++l)
    for (int i = 0; i < net.slots[l].tied; ++i) {
      const tied_parameter& t = net.tied[net.slots[l].first_tied + i];
      p.ties.push_back({t.owner, {l, t.index}});
    }
  find_links(net, p.cut(), [&p](const stage_link& l) {
    p.outgoing[static_cast<std::size_t>(l.from)].push_back(static_cast<int>(p.links.size()));
    p.incoming[static_cast<std::size_t>(l.to)].push_back(static_cast<int>(p.links.size()));
    p.links.push_back(l);
  });
}

/// For the author of a schedule: which cell is wrong, and what to do.
[[noreturn]] GPIPE_COLD inline void throw_unsound(const step_plan& p, const check_result& found) {
  const auto& [what, worker, tick, at] = found;
  const std::string schedule = concat({"the schedule's table is wrong: ", p.schedule.name(), ": "});
  if (at.kind == action_kind::idle)
    throw_error({schedule, "worker ", worker, " has no stage"}, {"let workers() count those of worker_of()"});
  std::string cell = concat({label_of(at, true).text(), " (", name_of(at.kind), ") of worker ", worker});
  if (what == fault::missing)
    throw_error({schedule, cell, " is missing"}, {"run every stage and micro-batch forward and backward once"});
  cell += concat({" at tick ", tick});
  if (what == fault::unknown)
    throw_error({schedule, cell, " is of a stage or micro-batch that this worker does not have"},
                {"choose a stage that worker_of() gives to the worker, and a micro-batch from 0 to ",
                 p.micro_batches() - 1});
  if (what == fault::repeated)
    throw_error({schedule, cell, " ran before, or must not run"},
                {"run every stage and micro-batch forward and backward once"});
  if (what == fault::retirement)
    throw_error({schedule, cell, " has parameter gradients, which a stage makes in the order 0, 1, 2, ..."},
                {"run the backwards of a stage in ascending order of micro-batches"});
  if (what == fault::stash)
    throw_error({schedule, cell, ": the stage then holds the inputs of more micro-batches than in_flight(), which is ",
                 p.schedule.in_flight(p.stages(), p.micro_batches(), at.stage)},
                {"return more from in_flight(), or run backward earlier"});
  throw_error({schedule, cell, " runs before what it needs"},
              {"run it in a later tick than the cells whose outputs it reads"});
}

GPIPE_COLD inline void require_sound(const step_plan& p) {
  const int S = p.stages(), M = p.micro_batches(), count = static_cast<int>(p.links.size());
  const check_result checked = check_timetable(p.schedule, S, M, p.links.data(), count);
  if (checked.ok()) return;
  std::string circle;
  find_circle_of(p.schedule, S, M, p.links.data(), count, [&circle](const waiting_worker& it) {
    circle += (circle.empty() ? "" : ", for ") + describe(it);
  });
  if (!circle.empty())
    throw_error({"the schedule's workers wait in a circle: ", circle, ", for the first"},
                {"run what a cell needs before it, or choose another schedule"});
  throw_unsound(p, checked);
}

GPIPE_COLD inline void require_memory(const plan_options& o, int stage, const stage_memory& memory) {
  if (memory.total() > o.memory_limit)
    throw_error(
        {"memory_limit is ", o.memory_limit, ", and the stage needs ", memory.total(), " bytes"},
        {"give it fewer slots, or leave the cut to the partition", o.coalesce > 1 ? ", or choose coalesce 0" : ""},
        location{.stage = stage});
}

GPIPE_COLD inline void assign_slots(step_plan& p) {
  const int S = p.stages(), M = p.micro_batches(), late = on_the_way(p.options.cost_transfers);
  const auto count = static_cast<std::size_t>(M);
  tick_index<schedule_choice> table(p.schedule, S, M, p.coalesce);
  for (const stage_link& l : p.links) {
    link_slots& its = p.slots_of_links.emplace_back(link_slots{std::vector<int>(count), std::vector<int>(count)});
    assign_link_slots(table, l, late, its.stash.data(), its.returned.data());
  }
  for (int m = 0; m < p.all_micro_batches(); ++m) p.each.push_back(m);
  for (int m = 0; m < M; ++m) p.leaving.push_back(m % 2);
  for (int s = 0; s < S; ++s) {
    stage_slots& its = p.slots_of_stages.emplace_back();
    for (auto* slots : {&its.entering, &its.forward, &its.again, &its.held}) slots->resize(count);
    stash_slots(table, s, s, its.entering.data());
    working_set_slots(p.schedule, S, M, p.recompute(), s, its.forward.data(), its.again.data());
    if (p.requirements(s).split) held_slots(table, s, its.held.data());
  }
}

GPIPE_COLD inline void lower_programs(step_plan& p) {
  const auto lower_all = [&p](schedule_choice schedule, std::vector<std::vector<instruction>>& programs) {
    const step_programs<schedule_choice> all(schedule, p.stages(), p.micro_batches(), p.recompute(), p.links.data(),
                                             static_cast<int>(p.links.size()), send_mode::buffered,
                                             schedule.trains ? p.coalesce : 1);
    for (int w = 0; w < all.workers(); ++w)
      programs.emplace_back(all.views()[w].lines, all.views()[w].lines + all.views()[w].length);
  };
  lower_all(p.schedule, p.programs);
  lower_all(p.schedule.forwards(), p.forward_programs);
}

/// Runs the plan's programs in the plan's slots: those that the workers will run, in those that their channels have.
GPIPE_COLD inline void require_programs(const step_plan& p) {
  const int S = p.stages(), M = p.micro_batches(), count = static_cast<int>(p.links.size());
  std::vector<int> stash, returned, copies, worker_of, in_flight;
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    const auto& [from, to, gradient] = p.links[k];
    const link_slots& its = p.slots_of_links[k];
    stash.insert(stash.end(), its.stash.begin(), its.stash.end());
    returned.insert(returned.end(), its.returned.begin(), its.returned.end());
    copies.push_back(p.requirements(to).stash.from(to - from));
    copies.push_back(p.requirements(from).returned.from(to - from));
  }
  tick_index<schedule_choice> table(p.schedule, S, M, p.coalesce);
  const zeroed_array<bool> recomputed(S * M);
  for (int s = 0; s < S; ++s) {
    worker_of.push_back(p.worker_of(s));
    in_flight.push_back(p.schedule.in_flight(S, M, s));
    flag_recomputed(table, p.recompute(), s, recomputed.data() + s * M);
  }
  expected_step terms{S, M, p.links.data(), count, p.schedule.trains, recomputed.data(), in_flight.data(),
                      worker_of.data()};
  terms.slots = {stash.data(), returned.data(), copies.data()};
  terms.ties = !p.ties.empty();
  const auto require = [&](const std::vector<std::vector<instruction>>& programs, const char* pass) {
    std::vector<program_view> views;
    for (const auto& program : programs) views.push_back({program.data(), static_cast<int>(program.size())});
    const check_result found = check(terms, views.data(), static_cast<int>(views.size()));
    if (!found.ok())
      throw_error({"a program ", pass, " does not run in the plan's slots: ", describe(found)},
                  {"choose another schedule"});
  };
  require(p.programs, "that trains");
  terms.trains = terms.ties = false;
  terms.recomputed = nullptr;
  terms.in_flight = nullptr;
  require(p.forward_programs, "that only runs forward");
}

/// All that follows from the cut.
GPIPE_COLD inline void complete_plan(const network& net, step_plan& p) {
  plan_options grouped = p.options;
  p.coalesce = grouped.coalesce = group_gradients(net, p.options, p.schedule, p.cut(), p.stage_plans.data());
  link_stages(net, p);
  require_sound(p);
  for (int s = 0; s < p.options.stages; ++s) {
    const stage_view stage(net, p.cut(), s);
    stage_plan& made = p.stage_plans[static_cast<std::size_t>(s)];
    set_requirements(grouped, p.schedule, stage, made);
    count_memory(stage, made);
    require_memory(p.options, s, made.memory);
    std::vector<memory_block>& blocks = p.blocks.emplace_back();
    lay_out(stage, made.requirements, made.memory, [&blocks](const memory_block& b) { blocks.push_back(b); });
    p.working_sets.push_back(made.requirements.kept_copies);
  }
  assign_slots(p);
  lower_programs(p);
  require_programs(p);
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE step_plan make_plan(const network& net, const plan_options& options,
                                               const std::vector<int>& custom_cut) {
  if (!custom_cut.empty()) return plan_with_cut(net, options, custom_cut);
  step_plan p = detail::uncut_plan(net, options);
  detail::search_cut(net, p);
  detail::complete_plan(net, p);
  return p;
}

GPIPE_COLD GPIPE_INLINE step_plan plan_with_cut(const network& net, const plan_options& options,
                                                   std::span<const int> cut) {
  step_plan p = detail::uncut_plan(net, options);
  detail::take_cut(cut.data(), static_cast<int>(cut.size()), net.slot_count, options.stages, p.first.data());
  p.options.lead = choose_lead(net, p.options, p.first.data());
  p.schedule = p.options.chosen_schedule();
  detail::complete_plan(net, p);
  return p;
}
#endif

}  // namespace gpipe
