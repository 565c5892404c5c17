#pragma once

#include <gpipe/plan/partition/branch_and_bound.hpp>
#include <gpipe/plan/partition/objective.hpp>

namespace gpipe {

namespace detail {

/// Equal devices, equal limits and free transfers: a longest-prefix probe is exact, and for the makespan's two criteria
/// we walk the Pareto front of (max f, max b) in ascending f and skip what cannot beat the best sum so far. Each step
/// is a bisection over probes of S binary searches.
template <class Fits>
class even_search {
 public:
  constexpr even_search(const load* sum, const load& largest, int slots, int stages, const Fits& fits)
      : prober_{sum, slots, stages, fits}, all_(sum[slots]), best_(all_) {
    if (fits_ = prober_.probe(all_, &load::both); fits_)
      lowest_ = {least(&load::forward, largest), least(&load::backward, largest), least(&load::both, largest)};
  }

  // Whether there is a cut that fits.
  GPIPE_ONCE constexpr bool find(bool makespan, int* first) {
    if (!fits_) return false;
    if (makespan) {
      best_.both = lowest_.both;
      prober_.probe(best_, &load::both);  // the best cut for f + b is a good first guess
      best_ = {prober_.reached.forward, prober_.reached.backward, all_.both};
      walk(all_.both, best_.forward + best_.backward - 1, false);
    }
    balance();
    while (makespan && best_.both > lowest_.both && walk(best_.both - 1, best_.forward + best_.backward, true))
      balance();
    spread(prober_, best_, first);
    return true;
  }

 private:
  // No stage can hold less than its largest slot, nor all of them less than the mean.
  constexpr std::int64_t least(std::int64_t load::*of, const load& largest) {
    const std::int64_t total = all_.*of, mean = total / prober_.stages + (total % prober_.stages != 0);
    return prober_.least(all_, of, mean > largest.*of ? mean : largest.*of, total);
  }

  // Looks for maxima with a sum of `beat` or less and no stage above `both`: the least sum, or any.
  constexpr bool walk(std::int64_t both, std::int64_t beat, bool any) {
    bool found = false;
    for (std::int64_t forward = lowest_.forward; beat >= forward + lowest_.backward && beat >= lowest_.both;) {
      load limit{all_.forward, beat - forward, both < beat ? both : beat};
      limit.forward = prober_.least(limit, &load::forward, forward, beat - lowest_.backward);
      if (limit.forward > beat - lowest_.backward) break;
      const std::int64_t highest = beat - limit.forward;
      const std::int64_t backward = prober_.least(limit, &load::backward, lowest_.backward, highest);
      if (backward <= highest) {
        best_ = {limit.forward, backward, limit.both};
        if (any) return true;
        found = true;
        beat = limit.forward + backward - 1;
      }
      forward = limit.forward + 1;
    }
    return found;
  }

  constexpr void balance() {
    const std::int64_t beat = best_.forward + best_.backward;
    best_.both = prober_.least(best_, &load::both, lowest_.both, beat < best_.both ? beat : best_.both);
  }

  prober<Fits> prober_;
  load all_, lowest_{}, best_;
  bool fits_ = false;
};

template <class Fits>
GPIPE_ONCE constexpr bool partition_even(const slot_cost* costs, int slots, int stages, bool makespan, int* first,
                                         const Fits& fits) {
  const scratch<load> sum(slots);
  load largest{};
  for (int l = 0; l < slots; ++l) {
    const slot_cost& cost = costs[l];
    if (cost.forward < 0 || cost.backward < 0) bad_cost(l, cost);
    const std::int64_t both = added(cost.forward, cost.backward, slots, 1);
    sum[l + 1].both = added(sum[l].both, both, slots, 1);
    sum[l + 1].forward = sum[l].forward + cost.forward;
    sum[l + 1].backward = sum[l].backward + cost.backward;
    if (cost.forward > largest.forward) largest.forward = cost.forward;
    if (cost.backward > largest.backward) largest.backward = cost.backward;
    if (both > largest.both) largest.both = both;
  }
  return even_search<Fits>(sum.data(), largest, slots, stages, fits).find(makespan, first);
}

template <class Fits>
GPIPE_ONCE constexpr bool partition_uneven(const partition_problem& p, int* first, const Fits& fits) {
  const tables all(p, fits);
  sweep sweeps(all);
  std::int64_t bottleneck = all.least_sum() / p.stages, found = unlimited;
  for (;; bottleneck += bottleneck / 16 + 1) {  // a narrow limit is soon swept
    if (bottleneck >= all.most_sum() - bottleneck / 16) bottleneck = all.most_sum();
    found = sweeps.run({.total = bottleneck}, smallest::total);
    if (found != unlimited) break;
    if (bottleneck == all.most_sum()) return false;
  }
  if (p.goal == objective::bottleneck) {
    sweeps.run({.total = found}, smallest::both);
  } else {
    makespan_search search(all, sweeps);
    search.search(unlimited, search.makespan() - 1, -1);
    while (search.held().both > found && search.search(search.held().both - 1, search.makespan(), search.makespan()));
    const load& held = search.held();
    sweeps.run({held.forward, held.backward, held.both, unlimited}, smallest::sum);
  }
  sweeps.choose(first);
  return true;
}

/// As `partition`, but tells whether a cut fits.
template <class Fits>
constexpr bool try_partition(const partition_problem& p, int* first, const Fits& fits) {
  require_problem(p);
  if constexpr (!limits_stages<Fits>) {
    bool even = p.transfer_count == 0;
    for (int s = 1; s < p.stages && even; ++s) even = p.kind(s) == p.kind(0);
    if (even)
      return partition_even(p.costs_on(0), p.slots, p.stages, p.goal == objective::fill_drain && p.micro_batches > 1,
                            first, fits);
  }
  return partition_uneven(p, first, fits);
}

}  // namespace detail

/// Cuts a model into stages, none empty: stage s holds [first[s], first[s + 1]), so `first` has stages + 1 places. No
/// cut has a smaller objective. Of those that have the same, it takes one whose largest f + b of a stage is smallest,
/// and then, within these maxima, each stage in turn comes as close as it can to an equal share of the f + b that is
/// left. The same problem always gives the same cut.
///
/// `fits(begin, end)` tells whether one stage has the memory for a range of slots; a part of a range that fits must fit
/// too. `fits(stage, begin, end)` is for stages that differ, and for limits that count what enters a stage: of a range
/// that fits only what begins with it must fit. Throws where a count, a cost or a transfer is not valid,
/// 64 bits do not suffice, or no cut fits.
///
/// Under the compilers' default limits constant evaluation admits 20,000 slots on 128 equal devices with free
/// transfers, some 500 slots with transfers, and some 240 by the makespan on unequal devices.
template <class Fits = fits_always>
GPIPE_ONCE constexpr void partition(const partition_problem& p, int* first, const Fits& fits = {}) {
  if (!detail::try_partition(p, first, fits))
    detail::refuse_misfit(detail::homeless_slot(fits, p.slots, p.stages), p.slots, p.stages);
}

/// The same for equal devices and free transfers, by the makespan of fill-drain.
template <class Fits = fits_always>
constexpr void partition(const slot_cost* costs, int slots, int stages, int micro_batches, int* first,
                         const Fits& fits = {}) {
  partition(partition_problem{slots, stages, micro_batches, costs}, first, fits);
}

/// How far a cut is from the best: its objective, and the smallest that a cut can have.
struct distance {
  std::int64_t of_cut = 0, optimum = 0;
};

/// Throws where `first` is no cut, or does not fit.
template <class Fits = fits_always>
GPIPE_ONCE constexpr distance distance_from_optimum(const partition_problem& p, const int* first,
                                                    const Fits& fits = {}) {
  detail::require_counts(p.slots, p.stages, p.micro_batches);
  require_cut(first, p.slots, p.stages, fits);
  const detail::scratch<int> best(p.stages);
  partition(p, best.data(), fits);
  return {objective_of(p, first), objective_of(p, best.data())};
}

}  // namespace gpipe
