#pragma once

#include <algorithm>
#include <vector>

#include <gpipe/plan/check_table.hpp>
#include <gpipe/plan/choose_cut.hpp>
#include <gpipe/plan/describe.hpp>
#include <gpipe/plan/links.hpp>

namespace gpipe {

/// A plan made at run time by the functions that make it at compile time: cut, links, places in stash, kept and
/// returned memory, and the bytes of every stage.
struct run_plan {
  plan_options options;
  std::vector<int> first;  ///< of each stage, and the number of slots behind them
  std::vector<link> links;
  std::vector<std::vector<int>> incoming, outgoing;  ///< links of each stage
  /// Places of each micro-batch, [stage][micro-batch]: of what enters the stage, of what backward reads again, and of
  /// the gradients that come back. A forward-only pass uses the same: there a place is free again after forward.
  std::vector<std::vector<int>> stash_slot, kept_slot, returned_slot;
  std::vector<int> each;  ///< 0 ... M - 1: the places of what every micro-batch has its own of
  std::vector<memory_terms> terms;
  std::vector<std::vector<memory_block>> blocks;  ///< of each stage's arena
  std::vector<stage_memory> memory;
  std::vector<layer_cost> costs_of_slots;  ///< [kind][slot], a micro-batch, in picoseconds

  stage_costs costs() const { return {costs_of_slots.data(), first.back(), options.each_count > 0}; }
  gpipe::cut cut() const { return {first.data(), options.stages}; }
  int stages() const { return options.stages; }
  int micro_batches() const { return options.micro_batches; }
  int most_samples() const { return options.micro_batches * options.micro_batch_size; }
  /// A stage's share of the predicted time.
  double share(int stage) const {
    std::int64_t all = 0, own = 0;
    for (int s = 0; s < options.stages; ++s)
      for (int l = cut().first[s]; l < cut().first[s + 1]; ++l) {
        const slot_cost of = detail::cost_in(options.chosen_schedule(), options, costs().of(s)[l]);
        all += of.forward + of.backward;
        if (s == stage) own += of.forward + of.backward;
      }
    return all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(all);
  }
};

/// Plans a network: an optimal cut, or the user's own (`own_cut`: the first slot of every stage but the first).
GPIPE_ONCE inline run_plan make_plan(const network& net, const plan_options& options,
                                     const std::vector<int>& own_cut = {}) {
  options.require_sensible(net.slot_count);
  run_plan p;
  p.options = options;
  const int S = options.stages, M = options.micro_batches, L = net.slot_count;
  const schedule_choice schedule = options.chosen_schedule();
  p.costs_of_slots.resize(static_cast<std::size_t>(cost_count(net, options)));
  const stage_costs costs = fill_costs(net, options, p.costs_of_slots.data());

  p.first.assign(static_cast<std::size_t>(S) + 1, 0);
  if (own_cut.empty()) {
    if (!choose_cut(net, options, schedule, costs, p.first.data()))
      detail::refuse({"no cut into ", detail::several(S, "stage"), " fits ", options.memory_limit, " bytes a stage"},
                     {"the smallest limit with which one does is ",
                      least_memory_limit(net, options, schedule, costs), " bytes"});
  } else take_cut(own_cut.data(), static_cast<int>(own_cut.size()), L, S, p.first.data());
  find_links(net, p.cut(), [&p](const link& l) { p.links.push_back(l); });
  p.incoming.resize(static_cast<std::size_t>(S));
  p.outgoing.resize(static_cast<std::size_t>(S));
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    p.outgoing[static_cast<std::size_t>(p.links[k].from)].push_back(static_cast<int>(k));
    p.incoming[static_cast<std::size_t>(p.links[k].to)].push_back(static_cast<int>(k));
  }

  const verdict checked = check_table(schedule, S, M, p.links.data(), static_cast<int>(p.links.size()));
  if (!checked.ok()) detail::refuse({"the schedule's table is wrong: ", describe(checked)}, {"choose another schedule"});

  for (int m = 0; m < M; ++m) p.each.push_back(m);
  for (int s = 0; s < S; ++s) {
    std::vector<int> stash(static_cast<std::size_t>(M)), one(stash), returned(stash);
    stash_slots(schedule, S, M, s, stash.data());
    for (int m = 0; m < M; ++m) returned[static_cast<std::size_t>(m)] = m % returned_slots;  // retired in this order
    const stage_view stage(net, p.cut(), s);
    p.terms.push_back(with_room(terms_of(schedule, options, s), options, stage));
    std::vector<memory_block>& blocks = p.blocks.emplace_back();
    p.memory.push_back(lay_out(stage, p.terms.back(), [&blocks](const memory_block& b) { blocks.push_back(b); }));
    if (const std::int64_t needed = p.memory.back().total(); needed > options.memory_limit)
      detail::refuse({"the stage needs ", needed, " bytes and is allowed ", options.memory_limit},
                     {"give it fewer slots, or leave the cut to the partition"}, place{.stage = s});
    p.kept_slot.push_back(options.recompute == recompute_mode::never ? stash : one);
    p.stash_slot.push_back(std::move(stash));
    p.returned_slot.push_back(std::move(returned));
  }
  return p;
}

}  // namespace gpipe
