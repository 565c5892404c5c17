#pragma once

#include <gpipe/plan/partition/dynamic_program.hpp>

namespace gpipe::detail {

/// The fill-drain makespan's best cut for unequal devices or limits, where all terms of
/// sum f + sum b + (M - 1) (max f + max b) depend on the cut.
///
/// Branch and bound over boxes of the two maxima (Land and Doig, 1960): no cut whose maxima lie in [low, high] beats
/// the smallest sum under `high` with the maxima `low`. A box that may hold a better cut is shrunk to maxima that
/// occur, then halved.
class makespan_search {
 public:
  /// Starts from a cut that `sweeps` has found.
  constexpr makespan_search(const tables& all, sweep& sweeps)
      : all_(all), sweeps_(sweeps), beats_(all.of.micro_batches - 1), first_(all.of.stages + 1), boxes_(256) {
    held_ = chosen();
    makespan_ = makespan_of(held_);
  }

  constexpr std::int64_t makespan() const { return makespan_; }
  constexpr const load& held() const { return held_; }  ///< the largest f, b and f + b of a stage

  /// Looks for a cut of no larger makespan than `target` and no stage above `both` in f + b: for the best of them, or
  /// for the first of makespan `enough`.
  GPIPE_ONCE constexpr bool search(std::int64_t both, std::int64_t target, std::int64_t enough) {
    bool found = false;
    int open = 0;
    boxes_[open++] = {0, both, 0, both, all_.least_sum()};
    while (open > 0) {
      box it = boxes_[--open];
      if (!shrink(it, target)) continue;
      it.sum = sweeps_.run(under(it, both), smallest::sum);
      if (it.sum == unlimited) continue;
      const load held = chosen();
      if (const std::int64_t makespan = makespan_of(held); makespan <= target) {
        found = true;
        held_ = held;
        makespan_ = makespan;
        if (makespan <= enough) return true;
        target = makespan - 1;
      }
      if (beats_ == 0 || !shrink(it, target)) continue;
      const std::int64_t forward = sweeps_.run(under(it, both), smallest::forward);
      const std::int64_t backward = sweeps_.run(under(it, both), smallest::backward);
      if (forward > it.low_forward) it.low_forward = forward;
      if (backward > it.low_backward) it.low_backward = backward;
      if (!shrink(it, target)) continue;
      box upper = it;
      const std::int64_t wide = it.high_forward - it.low_forward, high = it.high_backward - it.low_backward;
      if (wide > high) upper.low_forward = (it.high_forward = it.low_forward + wide / 2) + 1;
      else upper.low_backward = (it.high_backward = it.low_backward + high / 2) + 1;
      boxes_[open++] = upper;  // at most one stays behind at each halving
      boxes_[open++] = it;
    }
    return found;
  }

 private:
  struct box {
    std::int64_t low_forward, high_forward, low_backward, high_backward;
    std::int64_t sum;  ///< of f + b, no cut in the box has less
  };

  // Takes off what cannot reach the target; false where nothing is left.
  constexpr bool shrink(box& it, std::int64_t target) const {
    if (it.sum > target) return false;
    if (beats_ > 0) {
      const std::int64_t beat = (target - it.sum) / beats_;
      if (beat - it.low_backward < it.high_forward) it.high_forward = beat - it.low_backward;
      if (beat - it.low_forward < it.high_backward) it.high_backward = beat - it.low_forward;
    }
    return it.low_forward <= it.high_forward && it.low_backward <= it.high_backward;
  }
  static constexpr limits under(const box& it, std::int64_t both) {
    return {it.high_forward, it.high_backward, both, unlimited};
  }
  GPIPE_ONCE constexpr load chosen() {
    sweeps_.choose(first_.data());
    load most{};
    sum_ = 0;
    for (int s = 0; s < all_.of.stages; ++s) {
      const load held = all_.range(s, first_[s], first_[s + 1]);
      if (held.forward > most.forward) most.forward = held.forward;
      if (held.backward > most.backward) most.backward = held.backward;
      if (held.both > most.both) most.both = held.both;
      sum_ += held.both;
    }
    return most;
  }
  constexpr std::int64_t makespan_of(const load& most) const {
    return sum_ + beats_ * (most.forward + most.backward);
  }

  const tables& all_;
  sweep& sweeps_;
  std::int64_t beats_, makespan_ = 0, sum_ = 0;
  load held_{};
  scratch<int> first_;
  scratch<box> boxes_;
};

}  // namespace gpipe::detail
