#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/dynamic_program.hpp>
#include <gpipe/plan/partition/equal_devices.hpp>
#include <gpipe/plan/partition/objective.hpp>

namespace gpipe {

namespace detail {

// assumes: one device per layer
// change: the cut search; without a network
template <class Fits>
GPIPE_COLD constexpr bool partition_unequal(const partition_problem& p, int* first, const Fits& fits) {
  const range_sums ranges(p, fits);
  dynamic_program programs(ranges);
  std::int64_t bottleneck = ranges.min_sum() / p.stages, found = unlimited;
  for (;; bottleneck += bottleneck / 16 + 1) {  // a run with a low limit is short
    if (bottleneck >= ranges.max_sum() - bottleneck / 16) bottleneck = ranges.max_sum();
    found = programs.run({.total = bottleneck}, smallest::total);
    if (found != unlimited) break;
    if (bottleneck == ranges.max_sum()) return false;
  }
  if (p.goal == objective::bottleneck) {
    programs.run({.total = found}, smallest::both);
  } else {
    makespan_search search(ranges, programs);
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
    if (equal) return partition_equal(p, first, fits);
  }
  return partition_unequal(p, first, fits);
}

}  // namespace detail

/// Cuts a model into non-empty stages: stage s holds the layers [first[s], first[s + 1]), so `first` has stages + 1
/// elements. No cut has a smaller objective. Among equal cuts it takes one whose largest f + b of a stage is smallest;
/// then, within these maxima, each stage in turn is as close as possible to an equal share of the remaining f + b. (On
/// equal devices with `recomputes_first` a cut with the smallest max f + max b comes before one with a smaller f + b.)
/// The same problem always gives the same cut.
///
/// `fits(begin, end)` returns whether one stage has the memory for a range of layers; every part of a range that fits
/// must fit, too. `fits(stage, begin, end)` is for stages that differ, and for limits that include the inputs of a
/// stage: there, only every prefix of a range that fits must fit. Throws if a count, a cost or a transfer is not valid,
/// if 64 bits do not suffice, or if no cut fits.
///
/// Under the compilers' default limits, constant evaluation can cut 20,000 layers for 128 equal devices with free
/// transfers, some 500 layers with transfers, and some 240 by the makespan on unequal devices.
template <class Fits = detail::fits_always>
GPIPE_COLD constexpr void partition(const partition_problem& p, int* first, const Fits& fits = {}) {
  if (!detail::try_partition(p, first, fits))
    detail::throw_misfit(detail::unplaceable_layer(fits, p.layers, p.stages), p.layers, p.stages);
}

/// The same for equal devices and free transfers, by the makespan of fill-drain.
template <class Fits = detail::fits_always>
constexpr void partition(const pass_cost* costs, int layers, int stages, int micro_batches, int* first,
                         const Fits& fits = {}) {
  partition(partition_problem{layers, stages, micro_batches, costs}, first, fits);
}

namespace detail {

/// The objective of a cut, and the smallest objective of any cut.
struct distance {
  std::int64_t of_cut = 0, optimum = 0;
};

/// Throws if `first` is not a cut, or does not fit.
template <class Fits = fits_always>
GPIPE_COLD constexpr distance distance_from_optimum(const partition_problem& p, const int* first,
                                                    const Fits& fits = {}) {
  detail::require_counts(p.layers, p.stages, p.micro_batches);
  require_cut(first, p.layers, p.stages, fits);
  const detail::zeroed_array<int> best(p.stages);
  partition(p, best.data(), fits);
  return {objective_of(p, first), objective_of(p, best.data())};
}

}  // namespace detail

}  // namespace gpipe
