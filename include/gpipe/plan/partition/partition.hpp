#pragma once

#include <gpipe/plan/partition/branch_and_bound.hpp>
#include <gpipe/plan/partition/objective.hpp>

namespace gpipe {

namespace detail {

/// Equal devices, equal limits and free transfers: a longest-prefix probe is exact. For the makespan's two criteria we
/// walk the Pareto front of (max f, max b) in ascending f and skip what cannot beat the best sum so far. Each step is a
/// bisection over probes of S binary searches.
template <class Fits>
class equal_device_search {
 public:
  constexpr equal_device_search(const load* sum, const load& largest, int slots, int stages, const Fits& fits)
      : probe_{sum, slots, stages, fits}, all_(sum[slots]), best_(all_) {
    if (fits_ = probe_.run(all_, &load::both); fits_)
      lowest_ = {min_maximum(&load::forward, largest), min_maximum(&load::backward, largest),
                 min_maximum(&load::both, largest)};
  }

  // Finds the best cut; returns false if no cut fits.
  GPIPE_COLD constexpr bool find(bool makespan, int* first) {
    if (!fits_) return false;
    if (makespan) {
      best_.both = lowest_.both;
      probe_.run(best_, &load::both);  // the best cut for f + b is a good first bound
      best_ = {probe_.reached.forward, probe_.reached.backward, all_.both};
      walk(all_.both, best_.forward + best_.backward - 1, false);
    }
    balance();
    while (makespan && best_.both > lowest_.both && walk(best_.both - 1, best_.forward + best_.backward, true))
      balance();
    spread(probe_, best_, first);
    return true;
  }

 private:
  // The largest stage holds at least the largest slot and at least the mean.
  constexpr std::int64_t min_maximum(std::int64_t load::*of, const load& largest) {
    const std::int64_t total = all_.*of, mean = total / probe_.stages + (total % probe_.stages != 0);
    return probe_.min_limit(all_, of, mean > largest.*of ? mean : largest.*of, total);
  }

  // Searches for maxima with a sum of at most `period` and no stage above `both`: the smallest sum, or any.
  constexpr bool walk(std::int64_t both, std::int64_t period, bool any) {
    bool found = false;
    for (std::int64_t forward = lowest_.forward; period >= forward + lowest_.backward && period >= lowest_.both;) {
      load limit{all_.forward, period - forward, both < period ? both : period};
      limit.forward = probe_.min_limit(limit, &load::forward, forward, period - lowest_.backward);
      if (limit.forward > period - lowest_.backward) break;
      const std::int64_t max_backward = period - limit.forward;
      const std::int64_t backward = probe_.min_limit(limit, &load::backward, lowest_.backward, max_backward);
      if (backward <= max_backward) {
        best_ = {limit.forward, backward, limit.both};
        if (any) return true;
        found = true;
        period = limit.forward + backward - 1;
      }
      forward = limit.forward + 1;
    }
    return found;
  }

  constexpr void balance() {
    const std::int64_t period = best_.forward + best_.backward;
    best_.both = probe_.min_limit(best_, &load::both, lowest_.both, period < best_.both ? period : best_.both);
  }

  prefix_probe<Fits> probe_;
  load all_, lowest_{}, best_;
  bool fits_ = false;
};

template <class Fits>
GPIPE_COLD constexpr bool partition_equal(const slot_cost* costs, int slots, int stages, bool makespan, int* first,
                                          const Fits& fits) {
  const zeroed_array<load> sum(slots);
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
  return equal_device_search<Fits>(sum.data(), largest, slots, stages, fits).find(makespan, first);
}

template <class Fits>
GPIPE_COLD constexpr bool partition_unequal(const partition_problem& p, int* first, const Fits& fits) {
  const range_sums all(p, fits);
  dynamic_program programs(all);
  std::int64_t bottleneck = all.min_sum() / p.stages, found = unlimited;
  for (;; bottleneck += bottleneck / 16 + 1) {  // a run with a low limit is short
    if (bottleneck >= all.max_sum() - bottleneck / 16) bottleneck = all.max_sum();
    found = programs.run({.total = bottleneck}, smallest::total);
    if (found != unlimited) break;
    if (bottleneck == all.max_sum()) return false;
  }
  if (p.goal == objective::bottleneck) {
    programs.run({.total = found}, smallest::both);
  } else {
    makespan_search search(all, programs);
    search.search(unlimited, search.makespan() - 1, -1);
    while (search.maxima().both > found &&
           search.search(search.maxima().both - 1, search.makespan(), search.makespan()))
      ;
    const load& maxima = search.maxima();
    programs.run({maxima.forward, maxima.backward, maxima.both, unlimited}, smallest::sum);
  }
  programs.choose(first);
  return true;
}

/// As `partition`, but returns whether a cut fits.
template <class Fits>
constexpr bool try_partition(const partition_problem& p, int* first, const Fits& fits) {
  require_problem(p);
  if constexpr (!limits_stages<Fits>) {
    bool equal = p.transfer_count == 0;
    for (int s = 1; s < p.stages && equal; ++s) equal = p.kind(s) == p.kind(0);
    if (equal)
      return partition_equal(p.costs_on(0), p.slots, p.stages, p.goal == objective::fill_drain && p.micro_batches > 1,
                             first, fits);
  }
  return partition_unequal(p, first, fits);
}

}  // namespace detail

/// Cuts a model into non-empty stages: stage s holds the slots [first[s], first[s + 1]), so `first` has stages + 1
/// elements. No cut has a smaller objective. Among equal cuts it takes one whose largest f + b of a stage is smallest;
/// then, within these maxima, each stage in turn is as close as possible to an equal share of the remaining f + b. The
/// same problem always gives the same cut.
///
/// `fits(begin, end)` returns whether one stage has the memory for a range of slots; every part of a range that fits
/// must fit, too. `fits(stage, begin, end)` is for stages that differ, and for limits that include what enters a stage:
/// there, only every prefix of a range that fits must fit. Throws if a count, a cost or a transfer is not valid, if 64
/// bits do not suffice, or if no cut fits.
///
/// Under the compilers' default limits, constant evaluation can cut 20,000 slots for 128 equal devices with free
/// transfers, some 500 slots with transfers, and some 240 by the makespan on unequal devices.
template <class Fits = fits_always>
GPIPE_COLD constexpr void partition(const partition_problem& p, int* first, const Fits& fits = {}) {
  if (!detail::try_partition(p, first, fits))
    detail::throw_misfit(detail::unplaceable_slot(fits, p.slots, p.stages), p.slots, p.stages);
}

/// The same for equal devices and free transfers, by the makespan of fill-drain.
template <class Fits = fits_always>
constexpr void partition(const slot_cost* costs, int slots, int stages, int micro_batches, int* first,
                         const Fits& fits = {}) {
  partition(partition_problem{slots, stages, micro_batches, costs}, first, fits);
}

/// The objective of a cut, and the smallest objective of any cut.
struct distance {
  std::int64_t of_cut = 0, optimum = 0;
};

/// Throws if `first` is not a cut, or does not fit.
template <class Fits = fits_always>
GPIPE_COLD constexpr distance distance_from_optimum(const partition_problem& p, const int* first,
                                                    const Fits& fits = {}) {
  detail::require_counts(p.slots, p.stages, p.micro_batches);
  require_cut(first, p.slots, p.stages, fits);
  const detail::zeroed_array<int> best(p.stages);
  partition(p, best.data(), fits);
  return {objective_of(p, first), objective_of(p, best.data())};
}

}  // namespace gpipe
