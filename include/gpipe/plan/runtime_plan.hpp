#pragma once

#include <algorithm>
#include <vector>

#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan/choose_cut.hpp>
#include <gpipe/plan/gradient_grouping.hpp>
#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/check.hpp>

namespace gpipe {

/// Places of each micro-batch: in the stage that a link leads to, of what it brings, and in the one that it comes from,
/// of the gradients that come back.
struct link_slots {
  std::vector<int> stash, returned;
};

/// Places of each micro-batch in a stage.
struct stage_slots {
  std::vector<int> entering;         ///< of what enters from outside
  std::vector<int> forward, again;   ///< of the working set: in forward, and in recompute and backward
  std::vector<int> held;             ///< of gradients between backward's two parts
};

/// A slot that uses the parameters of an earlier one.
struct tie {
  int owner = 0, user = 0;
};

/// A plan made at run time by the functions that make it at compile time: cut, links, the places that micro-batches
/// take, and the bytes of every stage.
struct runtime_plan {
  plan_options options;
  schedule_choice schedule;
  int coalesce = 1;        ///< micro-batches whose parameter gradients are made together
  std::vector<int> first;  ///< of each stage, and the number of slots behind them
  std::vector<link> links;
  std::vector<std::vector<int>> incoming, outgoing;  ///< links of each stage
  std::vector<link_slots> slots_of_links;
  /// A forward-only pass takes the same places, and gives them back after forward.
  std::vector<stage_slots> slots_of_stages;
  std::vector<int> each;  ///< 0 ... R M - 1: the places of what every micro-batch of all replicas has its own of
  std::vector<int> leaving;  ///< places of each micro-batch of what goes to workers that share no memory
  std::vector<tie> ties;  ///< in model order of their users
  std::vector<memory_requirements> terms;
  std::vector<std::vector<memory_block>> blocks;  ///< of each stage's arena
  std::vector<stage_memory> memory;
  std::vector<int> working_sets;           ///< of each stage, where recompute is as needed
  std::vector<layer_cost> costs_of_slots;  ///< [kind][slot], a micro-batch, in picoseconds

  stage_costs costs() const { return {costs_of_slots.data(), first.back(), options.device_count > 0}; }
  gpipe::cut cut() const { return {first.data(), options.stages}; }
  recompute_choice recompute() const {
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
  int workers() const { return schedule.workers(options.stages); }
  int worker_of(int stage) const { return schedule.worker_of(options.stages, stage); }
  int micro_batches() const { return options.micro_batches; }  ///< of each replica
  int all_micro_batches() const { return options.all_micro_batches(); }
  int replicas() const { return options.replicas; }
  int max_batch() const { return options.all_micro_batches() * options.micro_batch_size; }
  int min_batch() const { return options.replicas; }  ///< of a step: one for each replica
  /// A stage's share of the predicted time.
  double share(int stage) const {
    std::int64_t all = 0, own = 0;
    for (int s = 0; s < options.stages; ++s)
      for (int l = cut().first[s]; l < cut().first[s + 1]; ++l) {
        const slot_cost of = detail::cost_in(schedule, options, costs().of(s)[l]);
        all += of.forward + of.backward;
        if (s == stage) own += of.forward + of.backward;
      }
    return all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(all);
  }
};

/// Plans a network: an optimal cut, or the user's own (`custom_cut`: the first slot of every stage but the first).
runtime_plan make_plan(const network& net, const plan_options& options, const std::vector<int>& custom_cut = {});

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE runtime_plan make_plan(const network& net, const plan_options& options,
                                               const std::vector<int>& custom_cut) {
  require_valid(options, net.slot_count);
  if (options.precision == precision::bf16 && precision_of(net) != precision::bf16)
    detail::throw_error({"the plan is to be in bf16, and the network is in float32"},
                   {"plan the network of in_bf16<model>, or make the trainer one of in_both<model>"});
  runtime_plan p;
  p.options = options;
  p.options.precision = precision_of(net);
  const int S = options.stages, M = options.micro_batches, L = net.slot_count;
  const schedule_choice schedule = p.schedule = options.chosen_schedule();
  p.costs_of_slots.resize(static_cast<std::size_t>(cost_count(net, options)));
  const stage_costs costs = fill_costs(net, options, p.costs_of_slots.data());

  p.first.assign(static_cast<std::size_t>(S) + 1, 0);
  if (custom_cut.empty()) {
    if (!choose_cut(net, p.options, schedule, costs, p.first.data()))
      detail::throw_error({"no cut into ", detail::several(S, "stage"), " fits ", options.memory_limit, " bytes a stage"},
                     {"the smallest limit with which one does is ",
                      min_memory_limit(net, p.options, schedule, costs), " bytes",
                      options.coalesce > 1 ? "; with coalesce 0 a smaller one may do" : ""});
  } else take_cut(custom_cut.data(), static_cast<int>(custom_cut.size()), L, S, p.first.data());
  plan_options chosen = p.options;
  p.coalesce = chosen.coalesce = coalesced(net, p.options, schedule, p.cut());
  for (int l = 0; l < L; ++l)
    if (!net.owns(l)) p.ties.push_back({net.slots[l].owner, l});
  find_links(net, p.cut(), [&p](const link& l) { p.links.push_back(l); });
  p.incoming.resize(static_cast<std::size_t>(S));
  p.outgoing.resize(static_cast<std::size_t>(S));
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    p.outgoing[static_cast<std::size_t>(p.links[k].from)].push_back(static_cast<int>(k));
    p.incoming[static_cast<std::size_t>(p.links[k].to)].push_back(static_cast<int>(k));
  }

  const check_result checked = check_timetable(schedule, S, M, p.links.data(), static_cast<int>(p.links.size()));
  if (!checked.ok())
    detail::throw_error({"the schedule's table is wrong: ", describe(checked)}, {"choose another schedule"});

  detail::tick_index<schedule_choice> table(schedule, S, M, p.coalesce);
  const auto count = static_cast<std::size_t>(M);
  const int late = detail::on_the_way(options.cost_transfers);
  for (const link& l : p.links) {
    link_slots& its = p.slots_of_links.emplace_back(link_slots{std::vector<int>(count), std::vector<int>(count)});
    stash_slots(table, l.from, l.to, its.stash.data(), late);
    if (schedule.trains && l.gradient) returned_slots(table, l.to, l.from, its.returned.data(), late);
  }
  for (int m = 0; m < p.all_micro_batches(); ++m) p.each.push_back(m);
  for (int m = 0; m < M; ++m) p.leaving.push_back(m % 2);
  for (int s = 0; s < S; ++s) {
    const stage_view stage(net, p.cut(), s);
    p.terms.push_back(with_working_sets(requirements_of(schedule, chosen, stage), options, stage));
    p.working_sets.push_back(p.terms.back().kept_copies);
    std::vector<memory_block>& blocks = p.blocks.emplace_back();
    p.memory.push_back(lay_out(stage, p.terms.back(), [&blocks](const memory_block& b) { blocks.push_back(b); }));
    if (const std::int64_t needed = p.memory.back().total(); needed > options.memory_limit)
      detail::throw_error({"the stage needs ", needed, " bytes and is allowed ", options.memory_limit},
                     {"give it fewer slots, or leave the cut to the partition",
                      options.coalesce > 1 ? ", or choose coalesce 0" : ""},
                     location{.stage = s});
  }
  for (int s = 0; s < S; ++s) {
    stage_slots& its = p.slots_of_stages.emplace_back();
    for (auto* places : {&its.entering, &its.forward, &its.again, &its.held}) places->resize(count);
    stash_slots(table, s, s, its.entering.data());
    working_set_slots(schedule, S, M, p.recompute(), s, its.forward.data(), its.again.data());
    if (p.terms[static_cast<std::size_t>(s)].split) held_slots(table, s, its.held.data());
  }
  return p;
}
#endif

}  // namespace gpipe
