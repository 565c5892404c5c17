#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/problem.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>

namespace gpipe::detail {

/// Cuts a large model by the time of its slowest stage, with the recomputes of the stages under their limits.
///
/// The time is bisected. For each, every stage from the first on takes as many layers as it can: their forward,
/// backward and recomputes take no longer, and their memory fits. If a part of a stage needs no more time or memory
/// than the stage, no cut has a much shorter time than the one found, and a stage ends between its ends for a shorter
/// and for a longer time. Transfers are not counted.
class probed_cut {
 public:
  static constexpr int max_bisections = 10;

  constexpr probed_cut(const partition_problem& p, const std::int64_t* limits, recompute_search& recompute)
      : p_(p),
        limits_(limits),
        recompute_(recompute),
        sums_(p.stages * (p.layers + 1)),
        first_(p.stages),
        below_(p.stages),
        above_(p.stages) {
    for (int s = 0; s <= p.stages; ++s) above_[s] = p.layers;
    for (int s = 0; s < p.stages; ++s)
      for (int l = 0; l < p.layers; ++l) {
        const pass_cost& c = p.costs_on(s)[l];
        sum(s, l + 1) = sum(s, l) + c.forward + c.backward;
      }
  }

  /// Writes the best cut; false: it finds none that fits.
  GPIPE_COLD constexpr bool find(int* first) {
    if (!fit(first)) return false;
    std::int64_t low = 0;
    for (int s = 0; s < p_.stages; ++s)
      if (const std::int64_t mean = sum(s, p_.layers) / p_.stages; s == 0 || mean < low) low = mean;
    std::int64_t high = low + low / 64;
    while (!reaches(high)) {
      low = high;
      high += high / 8 + 1;
    }
    take(first);
    for (int i = 0; i < max_bisections && high - low > high / 512; ++i) {
      const std::int64_t middle = low + (high - low) / 2;
      if (reaches(middle)) high = middle, take(first);
      else low = middle;
    }
    return true;
  }

  /// Writes a cut that fits, however long it takes; false: it finds none.
  constexpr bool fit(int* first) {
    const bool fits = reaches(unlimited);
    if (fits) take(first);
    return fits;
  }

 private:
  constexpr std::int64_t& sum(int stage, int layers) const { return sums_[stage * (p_.layers + 1) + layers]; }
  constexpr void take(int* first) const {
    for (int s = 0; s <= p_.stages; ++s) first[s] = first_[s];
  }

  /// Whether the stages of `first_` can have at most this time, which is longer than all times that were too short, and
  /// shorter than all others.
  constexpr bool reaches(std::int64_t time) {
    const int reached = ends(time);
    for (int s = 1; s <= reached; ++s) (reached == p_.stages ? above_ : below_)[s] = first_[s];
    return reached == p_.stages;
  }
  /// The number of stages whose ends are found: all, or the stages before the first one that cannot have this time.
  constexpr int ends(std::int64_t time) {
    first_[0] = 0;
    for (int s = 0; s < p_.stages; ++s) {
      const int begin = first_[s], left = p_.stages - 1 - s;
      // The first fits, or has no layer; what lies above the second does not fit.
      int low = below_[s + 1] > begin && takes(s, below_[s + 1], time) ? below_[s + 1] : begin;
      int high = above_[s + 1] < p_.layers - left ? above_[s + 1] : p_.layers - left;
      while (high > low && sum(s, high) - sum(s, begin) > time) --high;
      if (left == 0) return high == p_.layers && takes(s, high, time) ? p_.stages : s;
      for (int next = high; low < high; next = low + (high - low + 1) / 2) {
        if (takes(s, next, time)) low = next;
        else high = next - 1;
      }
      if (low == begin) return s;
      first_[s + 1] = low;
    }
    return p_.stages;
  }
  constexpr bool takes(int stage, int end, std::int64_t time) {
    first_[stage + 1] = end;
    for (int s = stage + 2; s <= p_.stages; ++s) first_[s] = s == p_.stages ? p_.layers : end + s - stage - 1;
    const stage_recompute decided = recompute_.decide(first_.data(), stage, limits_[stage]);
    const std::int64_t recompute = decided.time / p_.micro_batches + (decided.time % p_.micro_batches != 0);
    return decided.fits && sum(stage, end) - sum(stage, first_[stage]) + recompute <= time;
  }

  const partition_problem& p_;
  const std::int64_t* limits_;
  recompute_search& recompute_;
  zeroed_array<std::int64_t> sums_;  // [stage][layers before]
  zeroed_array<int> first_;
  zeroed_array<int> below_, above_;  // the ends for times that were too short, and for all others
};

}  // namespace gpipe::detail
