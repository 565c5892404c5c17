#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/plan/probe.hpp>
#include <gpipe/plan/scratch.hpp>

#include <cstdint>

namespace gpipe {

/// What one slot of the model costs on one micro-batch, in any one unit of time. `backward` includes a
/// recomputed forward if there is one.
struct slot_cost {
  std::int64_t forward = 0, backward = 0;
};

namespace detail {

// Not constexpr: reached in constant evaluation, they end it, and the compiler shows the call with its numbers.
[[noreturn]] inline void bad_stages(int stages, int slots) {
  refuse({"cannot cut ", slots, " slots into ", stages, " stages"},
         {"choose from 1 to ", slots, " stages: none may be empty"});
}
[[noreturn]] inline void bad_micro_batches(int micro_batches) {
  refuse({"cannot run ", micro_batches, " micro-batches"}, {"choose 1 or more"});
}
[[noreturn]] inline void bad_cost(int slot, const slot_cost& cost) {
  refuse({"a cost is negative (forward ", cost.forward, ", backward ", cost.backward, ")"},
         {"costs are times: give 0 or more"}, place{.slot = slot});
}
[[noreturn]] inline void cost_overflow(int slots, int micro_batches) {
  refuse({"the costs of ", slots, " slots over ", micro_batches, " micro-batches exceed 64 bits"},
         {"measure them in a larger unit of time"});
}
[[noreturn]] inline void no_cut_fits(int slots, int stages) {
  refuse({"no cut of ", slots, " slots into ", stages, " stages fits the memory of a stage"},
         {"use more stages, smaller micro-batches, or recompute"});
}
[[noreturn]] inline void bad_cut(int stage, int begin, int end) {
  refuse({"a stage holds the slots [", begin, ", ", end, ")"}, {"cuts ascend strictly from 0 to the number of slots"},
         place{.stage = stage});
}

constexpr std::int64_t added(std::int64_t a, std::int64_t b, int slots, int micro_batches) {
  if (a >= unlimited - b) cost_overflow(slots, micro_batches);
  return a + b;
}

constexpr void require_counts(int slots, int stages, int micro_batches) {
  if (stages < 1 || stages > slots) bad_stages(stages, slots);
  if (micro_batches < 1) bad_micro_batches(micro_batches);
}

}  // namespace detail

/// Time of a fill-drain step with equal micro-batches and free transfers,
///
///     sum f + sum b + (M - 1) (max f + max b),
///
/// over stages s that hold the slots [first[s], first[s + 1]). The two maxima may sit on different stages.
/// Throws where a count, a cut or a cost is not valid or 64 bits do not suffice.
constexpr std::int64_t fill_drain_makespan(const slot_cost* costs, int slots, const int* first, int stages,
                                           int micro_batches) {
  detail::require_counts(slots, stages, micro_batches);
  const auto add = [=](std::int64_t a, std::int64_t b) { return detail::added(a, b, slots, micro_batches); };
  std::int64_t sum = 0, forward = 0, backward = 0;
  for (int s = 0; s < stages; ++s) {
    const int begin = first[s], end = first[s + 1];
    if (end <= begin || (s == 0 && begin != 0) || end > slots || (s == stages - 1 && end != slots))
      detail::bad_cut(s, begin, end);
    slot_cost held{};
    for (int l = begin; l < end; ++l) {
      if (costs[l].forward < 0 || costs[l].backward < 0) detail::bad_cost(l, costs[l]);
      held.forward = add(held.forward, costs[l].forward);
      held.backward = add(held.backward, costs[l].backward);
    }
    sum = add(sum, add(held.forward, held.backward));
    if (held.forward > forward) forward = held.forward;
    if (held.backward > backward) backward = held.backward;
  }
  const std::int64_t beat = add(forward, backward), beats = micro_batches - 1;
  if (beats > 0 && beat > detail::unlimited / beats) detail::cost_overflow(slots, micro_batches);
  return add(sum, beats * beat);
}

/// Cuts `slots` slots into `stages` stages, none empty: stage s holds [first[s], first[s + 1]), so `first` has
/// stages + 1 places. No cut has a smaller `fill_drain_makespan`; among those of equal maxima the largest f + b of a
/// stage is smallest too. The same costs always give the same cut.
///
/// `fits(begin, end)` tells whether one stage has the memory for a range of slots; a part of a range that fits must
/// fit too. Throws where a count or a cost is not valid, 64 bits do not suffice, or no cut fits.
///
/// Two criteria: walk the Pareto front of (max f, max b) in ascending f, and skip what cannot beat the best sum so far.
/// Each step is a bisection over a longest-prefix probe of S binary searches.
template <class Fits = fits_always>
GPIPE_ONCE constexpr void partition(const slot_cost* costs, int slots, int stages, int micro_batches, int* first,
                                    const Fits& fits = {}) {
  detail::require_counts(slots, stages, micro_batches);
  const detail::scratch<detail::load> sum(slots);
  detail::load least{};  // no stage can hold less than its largest slot, nor all of them less than the mean
  for (int l = 0; l < slots; ++l) {
    const slot_cost& cost = costs[l];
    if (cost.forward < 0 || cost.backward < 0) detail::bad_cost(l, cost);
    const std::int64_t both = detail::added(cost.forward, cost.backward, slots, 1);
    sum[l + 1].both = detail::added(sum[l].both, both, slots, 1);
    sum[l + 1].forward = sum[l].forward + cost.forward;
    sum[l + 1].backward = sum[l].backward + cost.backward;
    if (cost.forward > least.forward) least.forward = cost.forward;
    if (cost.backward > least.backward) least.backward = cost.backward;
    if (both > least.both) least.both = both;
  }
  const detail::load all = sum[slots];
  const auto mean = [=](std::int64_t total) { return total / stages + (total % stages != 0); };
  if (mean(all.forward) > least.forward) least.forward = mean(all.forward);
  if (mean(all.backward) > least.backward) least.backward = mean(all.backward);
  if (mean(all.both) > least.both) least.both = mean(all.both);

  using detail::load;
  detail::prober<Fits> prober{sum.data(), slots, stages, fits};
  if (!prober.probe(all, &load::both)) detail::no_cut_fits(slots, stages);
  const load lowest{prober.least(all, &load::forward, least.forward, all.forward),
                    prober.least(all, &load::backward, least.backward, all.backward),
                    prober.least(all, &load::both, least.both, all.both)};
  load best = all;
  if (micro_batches > 1) {  // with one micro-batch the sums decide, and every cut has the same
    best.both = lowest.both;
    prober.probe(best, &load::both);  // the best cut for f + b is a good first guess
    best = {prober.reached.forward, prober.reached.backward, all.both};
    for (std::int64_t forward = lowest.forward;;) {
      const std::int64_t better = best.forward + best.backward - 1;
      if (better < lowest.both || better < forward + lowest.backward) break;
      load limit{all.forward, better - forward, better};
      limit.forward = prober.least(limit, &load::forward, forward, better - lowest.backward);
      if (limit.forward > better - lowest.backward) break;
      const std::int64_t highest = better - limit.forward;
      const std::int64_t backward = prober.least(limit, &load::backward, lowest.backward, highest);
      if (backward <= highest) best = {limit.forward, backward, all.both};
      forward = limit.forward + 1;
    }
  }
  best.both = prober.least(best, &load::both, lowest.both, best.forward + best.backward);
  detail::spread(prober, best, first);
}

}  // namespace gpipe
