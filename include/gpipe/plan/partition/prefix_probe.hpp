#pragma once

#include <cstdint>

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

/// The cost of a range of layers, or the limits of every stage.
struct load {
  std::int64_t forward = 0, backward = 0, both = 0;
  std::int64_t recompute = 0;  ///< see `pass_cost`; a probe does not sum it

  constexpr std::int64_t once() const { return both - recompute; }
};

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

}  // namespace gpipe::detail
