#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/dynamic_program.hpp>

namespace gpipe::detail {

/// The best cut for the fill-drain makespan with unequal devices or limits, where all terms of `objective_of` depend on
/// the cut.
///
/// Branch and bound over boxes of the two maxima (Land and Doig, 1960). If a cut's maxima lie in [low, high], its
/// makespan is at least the one with the smallest sum under `high` and the maxima `low`. A box that may contain a
/// better cut is shrunk to maxima that occur, then halved.
class makespan_search {
 public:
  /// Starts from the cut that `programs` found last.
  constexpr makespan_search(const range_sums& ranges, dynamic_program& programs)
      : ranges_(ranges),
        program_(programs),
        periods_(ranges.problem.micro_batches - 1),
        first_(ranges.problem.stages + 1),
        boxes_(256) {
    maxima_ = chosen();
    makespan_ = makespan_of(maxima_);
  }

  constexpr std::int64_t makespan() const { return makespan_; }
  constexpr const load& maxima() const { return maxima_; }  ///< the largest f, b and f + b of a stage

  /// Searches for a cut with a makespan of at most `target` and f + b of at most `both` in every stage: for the best
  /// one, or for the first with a makespan of at most `enough`.
  GPIPE_COLD constexpr bool search(std::int64_t both, std::int64_t target, std::int64_t enough) {
    bool found = false;
    int open = 0;
    boxes_[open++] = {0, both, 0, both, ranges_.min_once()};
    while (open > 0) {
      search_box current = boxes_[--open];
      if (!shrink(current, target)) continue;
      current.sum = program_.run(under(current, both), smallest::sum);
      if (current.sum == unlimited) continue;
      const load held = chosen();
      if (const std::int64_t makespan = makespan_of(held); makespan <= target) {
        found = true;
        maxima_ = held;
        makespan_ = makespan;
        if (makespan <= enough) return true;
        target = makespan - 1;
      }
      if (periods_ == 0 || !shrink(current, target)) continue;
      const std::int64_t forward = program_.run(under(current, both), smallest::forward);
      const std::int64_t backward = program_.run(under(current, both), smallest::backward);
      if (forward > current.low_forward) current.low_forward = forward;
      if (backward > current.low_backward) current.low_backward = backward;
      if (!shrink(current, target)) continue;
      search_box upper = current;
      const std::int64_t wide = current.high_forward - current.low_forward,
                         high = current.high_backward - current.low_backward;
      if (wide > high) upper.low_forward = (current.high_forward = current.low_forward + wide / 2) + 1;
      else upper.low_backward = (current.high_backward = current.low_backward + high / 2) + 1;
      boxes_[open++] = upper;  // each halving leaves at most one box on the stack
      boxes_[open++] = current;
    }
    return found;
  }

 private:
  struct search_box {
    std::int64_t low_forward, high_forward, low_backward, high_backward;
    std::int64_t sum;  ///< lower bound on the two sums of any cut in the box
  };

  // Shrinks the box to maxima that can reach the target; returns false if nothing remains.
  constexpr bool shrink(search_box& box, std::int64_t target) const {
    if (box.sum > target) return false;
    if (periods_ > 0) {
      const std::int64_t period = (target - box.sum) / periods_;
      if (period - box.low_backward < box.high_forward) box.high_forward = period - box.low_backward;
      if (period - box.low_forward < box.high_backward) box.high_backward = period - box.low_forward;
    }
    return box.low_forward <= box.high_forward && box.low_backward <= box.high_backward;
  }
  static constexpr limits under(const search_box& box, std::int64_t both) {
    return {box.high_forward, box.high_backward, both, unlimited};
  }
  GPIPE_COLD constexpr load chosen() {
    program_.choose(first_.data());
    load maxima{};
    sum_ = 0;
    for (int s = ranges_.problem.stages - 1; s >= 0; --s) {
      const load held = ranges_.range(s, first_[s], first_[s + 1]);
      if (held.forward > maxima.forward) maxima.forward = held.forward;
      if (held.backward > maxima.backward) maxima.backward = held.backward;
      if (held.both > maxima.both) maxima.both = held.both;
      if (ranges_.problem.recomputes_first && held.recompute > sum_) sum_ = held.recompute;
      sum_ += held.once();
    }
    return maxima;
  }
  constexpr std::int64_t makespan_of(const load& maxima) const {
    return sum_ + periods_ * (maxima.forward + maxima.backward);
  }

  const range_sums& ranges_;
  dynamic_program& program_;
  std::int64_t periods_, makespan_ = 0, sum_ = 0;
  load maxima_{};
  zeroed_array<int> first_;
  zeroed_array<search_box> boxes_;
};

}  // namespace gpipe::detail
