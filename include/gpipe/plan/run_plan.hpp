#pragma once

#include <algorithm>
#include <vector>

#include <gpipe/plan/check.hpp>
#include <gpipe/plan/cost.hpp>
#include <gpipe/plan/describe.hpp>
#include <gpipe/plan/links.hpp>
#include <gpipe/plan/memory.hpp>
#include <gpipe/plan/options.hpp>
#include <gpipe/plan/program.hpp>

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
  std::vector<slot_cost> costs;  ///< of each slot, a micro-batch

  gpipe::cut cut() const { return {first.data(), options.stages}; }
  int stages() const { return options.stages; }
  int micro_batches() const { return options.micro_batches; }
  int most_samples() const { return options.micro_batches * options.micro_batch_size; }
  /// A stage's share of the predicted time.
  double share(int stage) const {
    std::int64_t all = 0, own = 0;
    for (std::size_t l = 0; l < costs.size(); ++l) {
      const std::int64_t cost = costs[l].forward + costs[l].backward;
      all += cost;
      if (static_cast<int>(l) >= first[static_cast<std::size_t>(stage)] &&
          static_cast<int>(l) < first[static_cast<std::size_t>(stage) + 1])
        own += cost;
    }
    return all == 0 ? 0 : static_cast<double>(own) / static_cast<double>(all);
  }
};

namespace detail {

GPIPE_ONCE inline void require_own_cut(const std::vector<int>& own, int slots, int stages) {
  if (static_cast<int>(own.size()) != stages - 1)
    refuse({"the cut names ", own.size(), " places, but ", stages, " stages have ", stages - 1, " between them"},
           {"name the first slot of every stage but the first"});
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i] <= (i == 0 ? 0 : own[i - 1]) || own[i] >= slots)
      refuse({"the cut at ", own[i], " leaves a stage empty or lies outside the ", slots, " slots"},
             {"name ascending slots between 1 and ", slots - 1});
}

}  // namespace detail

/// Plans a network: an optimal cut, or the user's own (`own_cut`: the first slot of every stage but the first).
GPIPE_ONCE inline run_plan make_plan(const network& net, const plan_options& options,
                                     const std::vector<int>& own_cut = {}) {
  options.require_sensible(net.slot_count);
  run_plan p;
  p.options = options;
  const int S = options.stages, M = options.micro_batches, L = net.slot_count;
  const bool recomputed = options.recompute != recompute_mode::never;
  for (int l = 0; l < L; ++l) p.costs.push_back(cost_of(net.row_of(l), options.micro_batch_size, recomputed));

  p.first.assign(static_cast<std::size_t>(S) + 1, 0);
  if (own_cut.empty()) {
    partition(p.costs.data(), L, S, M, p.first.data());
  } else {
    detail::require_own_cut(own_cut, L, S);
    std::copy(own_cut.begin(), own_cut.end(), p.first.begin() + 1);
    p.first.back() = L;
  }
  find_links(net, p.cut(), [&p](const link& l) { p.links.push_back(l); });
  p.incoming.resize(static_cast<std::size_t>(S));
  p.outgoing.resize(static_cast<std::size_t>(S));
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    p.outgoing[static_cast<std::size_t>(p.links[k].from)].push_back(static_cast<int>(k));
    p.incoming[static_cast<std::size_t>(p.links[k].to)].push_back(static_cast<int>(k));
  }

  const verdict checked = check_schedule(options.schedule, S, M, options.recompute, p.links.data(),
                                         static_cast<int>(p.links.size()), rendezvous);
  if (!checked.ok())
    detail::refuse({"the schedule's programs do not run: ", describe(checked)}, {"choose another schedule"});

  for (int m = 0; m < M; ++m) p.each.push_back(m);
  for (int s = 0; s < S; ++s) {
    std::vector<int> stash(static_cast<std::size_t>(M)), one(stash), returned(stash);
    const int in_flight = stash_slots(options.schedule, S, M, s, stash.data());
    for (int m = 0; m < M; ++m) returned[static_cast<std::size_t>(m)] = m % returned_slots;  // retired in this order
    p.terms.push_back({M, options.micro_batch_size, in_flight, recomputed ? 1 : in_flight, options.moments});
    std::vector<memory_block>& blocks = p.blocks.emplace_back();
    lay_out(stage_view(net, p.cut(), s), p.terms.back(), [&blocks](const memory_block& b) { blocks.push_back(b); });
    stage_memory& memory = p.memory.emplace_back();
    for (const memory_block& b : blocks) memory.add(b);
    p.kept_slot.push_back(recomputed ? one : stash);
    p.stash_slot.push_back(std::move(stash));
    p.returned_slot.push_back(std::move(returned));
  }
  return p;
}

}  // namespace gpipe
