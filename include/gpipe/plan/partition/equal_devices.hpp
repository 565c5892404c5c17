#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/objective.hpp>

namespace gpipe::detail {

/// The largest end of a stage from `begin` that `holds(end)`, as all smaller ones do. Neighbouring stages are similar,
/// so first try the `width` of the stage before, then gallop, then bisect.
template <class Holds>
constexpr int largest_end(int begin, int last, int width, const Holds& holds) {
  int low = begin, high = last;
  for (int stride = width > 0 ? width : 1, further = 1; low < high;) {
    const int middle = stride < high - low ? low + stride : high - (high - low) / 2;
    if (!holds(middle)) {
      high = middle - 1;
      continue;
    }
    low = middle;
    stride = further;
    if (further < last - begin) further *= 2;
  }
  return low;
}

/// Longest-prefix probe: each stage, from the first on, takes as many layers as the limits allow. A part of a range
/// that is within the limits is, too, so if any cut is within them, this one is. Unused stages are filled by splitting.
template <class Fits>
struct prefix_probe {
  const load* sum;  ///< sum[l] is the load of the layers [0, l)
  int layers, stages;
  const Fits& fits;
  load reached{};         ///< after a successful probe: the largest stage in each criterion
  std::int64_t next = 0;  ///< after a failed probe: the next limit of the searched criterion to try

  constexpr load range(int begin, int end) const {
    return {sum[end].forward - sum[begin].forward, sum[end].backward - sum[begin].backward,
            sum[end].both - sum[begin].both};
  }

  constexpr bool obeys(int begin, int end, const load& limit) const {
    return sum[end].forward - sum[begin].forward <= limit.forward &&
           sum[end].backward - sum[begin].backward <= limit.backward && sum[end].both - sum[begin].both <= limit.both &&
           (std::is_same_v<Fits, fits_always> || fits(begin, end));
  }

  /// The largest end of a stage from `begin`. `width`: of the stage before.
  constexpr int reach(int begin, int width, const load& limit) const {
    return largest_end(begin, layers, width, [&](int end) { return obeys(begin, end, limit); });
  }

  GPIPE_COLD constexpr bool run(const load& limit, std::int64_t load::*searched) {
    load other_limits = limit;
    other_limits.*searched = unlimited;
    reached = {};
    next = unlimited;
    int begin = 0, width = layers / stages;
    for (int s = 0; s < stages && begin < layers; ++s) {
      const std::int64_t remaining = sum[layers].*searched - sum[begin].*searched, left = stages - s;
      const std::int64_t share = remaining / left + (remaining % left != 0);
      if (share > limit.*searched) {  // the remaining stages cannot take the remaining cost
        if (share < next) next = share;
        return false;
      }
      const int end = reach(begin, width, limit);
      const load stage_load = range(begin, end);
      if (stage_load.forward > reached.forward) reached.forward = stage_load.forward;
      if (stage_load.backward > reached.backward) reached.backward = stage_load.backward;
      if (stage_load.both > reached.both) reached.both = stage_load.both;
      if (end < layers && obeys(begin, end + 1, other_limits)) {
        const std::int64_t enlarged = range(begin, end + 1).*searched;
        if (enlarged < next) next = enlarged;
      }
      width = end - begin;
      begin = end;
    }
    return begin == layers;
  }

  /// The smallest limit of the searched criterion in [low, high] for which a cut exists under the other limits;
  /// `high + 1` if there is none. Every probe moves a bound to a sum that occurs, so few are needed: one at `high`,
  /// then galloping up from `low`, near which the answer usually lies, then bisection.
  GPIPE_COLD constexpr std::int64_t min_limit(load limit, std::int64_t load::*searched, std::int64_t low,
                                              std::int64_t high) {
    limit.*searched = high;
    if (!run(limit, searched)) return high + 1;
    if (reached.*searched < high) high = reached.*searched;
    for (std::int64_t trial = low, stride = low / 128 + 1; low < high;) {
      limit.*searched = trial;
      if (run(limit, searched)) high = reached.*searched > low ? reached.*searched : low;
      else low = next < high ? next : high;
      trial = stride < high - low ? low + stride : low + (high - low) / 2;
      stride = stride < (high - low) / 4 ? 4 * stride : high - low;
    }
    return high;
  }
};

/// Cuts as evenly as the limits allow. Each cut lies between the earliest layer from which the later stages can take
/// the remaining layers and the latest layer that its stage can reach, close to an equal share of the remaining cost.
template <class Fits>
GPIPE_COLD constexpr void spread(const prefix_probe<Fits>& probe, const load& limit, int* first) {
  const int layers = probe.layers, stages = probe.stages;
  first[stages] = layers;
  for (int s = stages - 1; s > 0; --s) {  // first[s] is the earliest layer for now
    int low = s, high = first[s + 1] - 1;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (probe.obeys(middle, first[s + 1], limit)) high = middle;
      else low = middle + 1;
    }
    first[s] = low;
  }
  first[0] = 0;
  for (int s = 0; s + 1 < stages; ++s) {
    const int begin = first[s], left = stages - s, latest = layers - left + 1;
    const std::int64_t remaining = probe.range(begin, layers).both;
    load share = limit;
    if (remaining / left < share.both) share.both = remaining / left;
    int end = remaining == 0 ? begin + (layers - begin) / left : probe.reach(begin, (layers - begin) / left, share);
    if (remaining > 0 && end < layers && probe.obeys(begin, end + 1, limit) &&
        probe.range(begin, end + 1).both - remaining / left < remaining / left - probe.range(begin, end).both)
      ++end;
    if (end < first[s + 1]) end = first[s + 1];
    if (end <= begin) end = begin + 1;
    first[s + 1] = end < latest ? end : latest;
  }
}

/// Equal devices, equal limits and free transfers: a longest-prefix probe is exact. For the makespan's two criteria we
/// walk the Pareto front of (max f, max b) in ascending f and skip points that cannot beat the best sum so far. Each
/// step is a bisection over probes of S binary searches.
template <class Fits>
class equal_device_search {
 public:
  constexpr equal_device_search(const load* sum, const load& largest, int layers, int stages, const Fits& fits)
      : probe_{sum, layers, stages, fits}, total_(sum[layers]), best_(total_) {
    if (fits_ = probe_.run(total_, &load::both); fits_)
      lowest_ = {min_maximum(&load::forward, largest), min_maximum(&load::backward, largest),
                 min_maximum(&load::both, largest)};
  }

  // Finds the best cut; returns false if no cut fits.
  GPIPE_COLD constexpr bool find(bool makespan, int* first) {
    if (!fits_) return false;
    if (makespan) {
      best_.both = lowest_.both;
      probe_.run(best_, &load::both);  // the best cut for f + b is a good first bound
      best_ = {probe_.reached.forward, probe_.reached.backward, total_.both};
      walk(total_.both, best_.forward + best_.backward - 1, false);
    }
    balance();
    while (makespan && best_.both > lowest_.both && walk(best_.both - 1, best_.forward + best_.backward, true))
      balance();
    spread(probe_, best_, first);
    return true;
  }

 private:
  // The largest stage holds at least the largest layer and at least the mean.
  constexpr std::int64_t min_maximum(std::int64_t load::*criterion, const load& largest) {
    const std::int64_t total = total_.*criterion, mean = total / probe_.stages + (total % probe_.stages != 0);
    return probe_.min_limit(total_, criterion, mean > largest.*criterion ? mean : largest.*criterion, total);
  }

  // Searches for maxima with a sum of at most `period` and no stage above `both`: the smallest sum, or any.
  constexpr bool walk(std::int64_t both, std::int64_t period, bool any) {
    bool found = false;
    for (std::int64_t forward = lowest_.forward; period >= forward + lowest_.backward && period >= lowest_.both;) {
      load limit{total_.forward, period - forward, both < period ? both : period};
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
  load total_, lowest_{}, best_;
  bool fits_ = false;
};

/// A range within a bound of the first sums of `objective_of`, r of the stage and f + b - r of all layers up to its
/// end. A part of a range that is within it is, too, so it is like a limit of memory.
template <class Fits>
struct turns_within {
  const load* sum;
  const Fits& fits;
  std::int64_t limit = unlimited;

  constexpr std::int64_t turn(int begin, int end) const {
    return sum[end].once() + sum[end].recompute - sum[begin].recompute;
  }
  constexpr bool operator()(int begin, int end) const { return turn(begin, end) <= limit && fits(begin, end); }
};

/// The best cut for equal devices if every micro-batch runs forward again, also the first. Its step is at least
/// (M - 1) (max f + max b) plus the latest turn. From the shortest period on we bound the turn until no cut is left; a
/// cut with a shorter step has an earlier turn than the best so far has for the same period.
template <class Fits>
class turn_search {
 public:
  constexpr turn_search(const partition_problem& p, const load* sum, const load& largest, const Fits& fits)
      : p_(p), turns_{sum, fits}, largest_(largest), trial_(p.stages) {}

  /// `first` is a cut of the shortest period; it stays if no step is shorter.
  GPIPE_COLD constexpr void improve(int* first) {
    const load* sum = turns_.sum;
    const std::int64_t periods = p_.micro_batches - 1;
    const load held = maxima(first);
    std::int64_t latest = held.both, shortest = latest + periods * (held.forward + held.backward), best = unlimited;
    for (turns_.limit = latest - 1; find(trial_.data());) {
      load limit = maxima(trial_.data());
      latest = limit.both;
      const std::int64_t period = limit.forward + limit.backward;
      if (periods == 0) limit = sum[p_.layers];
      limit.both = sum[p_.layers].both;
      prefix_probe<turns_within<Fits>> probe{sum, p_.layers, p_.stages, turns_};
      turns_.limit = unlimited;
      for (std::int64_t low = turn_of_last(probe, limit), turn = low; low < latest; turn = low + (latest - low) / 2) {
        turns_.limit = turn;  // mostly the first can be reached
        if (probe.run(limit, &load::both)) latest = turn;
        else low = turn + 1;
      }
      if (latest + periods * period < shortest) {
        shortest = latest + periods * period;
        best = latest;
      }
      turns_.limit = shortest - periods * period - 1;
    }
    if (best == unlimited) return;
    turns_.limit = best;
    find(first);
  }

 private:
  constexpr bool find(int* first) const {
    return equal_device_search<turns_within<Fits>>(turns_.sum, largest_, p_.layers, p_.stages, turns_)
        .find(p_.micro_batches > 1, first);
  }
  /// The turn of the last stage if all before are as long as the limits allow: no cut within them has an earlier one.
  constexpr std::int64_t turn_of_last(const prefix_probe<turns_within<Fits>>& probe, const load& limit) const {
    int begin = 0;
    for (int s = 0, width = p_.layers / p_.stages; s + 1 < p_.stages; ++s) {
      const int end = probe.reach(begin, width, limit);
      width = end - begin;
      begin = end;
    }
    return turns_.turn(begin < p_.layers ? begin : p_.layers - 1, p_.layers);
  }
  /// The largest f and b of a stage, and its latest turn as `both`.
  constexpr load maxima(const int* first) const {
    load max{};
    for (int s = 0; s < p_.stages; ++s) {
      const load &before = turns_.sum[first[s]], &through = turns_.sum[first[s + 1]];
      const std::int64_t turn = turns_.turn(first[s], first[s + 1]);
      if (through.forward - before.forward > max.forward) max.forward = through.forward - before.forward;
      if (through.backward - before.backward > max.backward) max.backward = through.backward - before.backward;
      if (turn > max.both) max.both = turn;
    }
    return max;
  }

  const partition_problem& p_;
  turns_within<Fits> turns_;
  const load& largest_;
  zeroed_array<int> trial_;
};

template <class Fits>
GPIPE_COLD constexpr bool partition_equal(const partition_problem& p, int* first, const Fits& fits) {
  const pass_cost* costs = p.costs_on(0);
  const zeroed_array<load> sum(p.layers);
  load largest{};
  for (int l = 0; l < p.layers; ++l) {
    const pass_cost& cost = costs[l];
    require_cost(l, cost);
    const std::int64_t both = added(cost.forward, cost.backward, p.layers, 1);
    sum[l + 1].both = added(sum[l].both, both, p.layers, 1);
    sum[l + 1].forward = sum[l].forward + cost.forward;
    sum[l + 1].backward = sum[l].backward + cost.backward;
    sum[l + 1].recompute = sum[l].recompute + cost.recompute;
    if (cost.forward > largest.forward) largest.forward = cost.forward;
    if (cost.backward > largest.backward) largest.backward = cost.backward;
    if (both > largest.both) largest.both = both;
  }
  const bool drains = p.goal == objective::fill_drain;
  if (!equal_device_search<Fits>(sum.data(), largest, p.layers, p.stages, fits)
           .find(drains && p.micro_batches > 1, first))
    return false;
  if (drains && p.recomputes_first && p.stages > 1) turn_search<Fits>(p, sum.data(), largest, fits).improve(first);
  return true;
}

}  // namespace gpipe::detail
