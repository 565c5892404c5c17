#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/range_sums.hpp>

namespace gpipe::detail {

/// The quantity that a run minimizes: the largest such value of a stage, or the two sums of `objective_of`.
enum class smallest { forward, backward, both, total, sum };

/// Limits of every stage; `total` is f + b and the transfers.
struct limits {
  std::int64_t forward = unlimited, backward = unlimited, both = unlimited, total = unlimited;
};

/// The best remainder of a cut from each layer at which a stage may begin, from the last stage to the first. A
/// longest-prefix probe is wrong if costs grow and shrink with a range (transfers), or if the next device may not have
/// memory for the next layer; this is exact in both cases, because it tries every end that the limits allow.
///
/// The limits keep the search short. Without transfers, stage s begins no later than the stages before it can reach,
/// and no earlier than the stages from s on can reach back from the end:
///
///     stage 0   |=========|
///     stage 1         |==========|             low[s] <= begin of stage s <= high[s]
///     stage 2                |=========|
class dynamic_program {
  // Defined before its use: clang 14 evaluates no member template before its definition.
  constexpr std::int64_t& best_value(int stage, int begin) const { return best_values_[stage * (layers_ + 1) + begin]; }

  // The value of a stage with this load, combined with the value of the stages after it.
  constexpr std::int64_t combined(const load& stage_load, std::int64_t moved, std::int64_t after) const {
    if (quantity_ == smallest::sum) {
      const std::int64_t turn = ranges_.problem.recomputes_first ? stage_load.recompute : 0;
      return stage_load.once() + (turn > after ? turn : after);
    }
    const std::int64_t stage_value = quantity_ == smallest::forward    ? stage_load.forward
                                     : quantity_ == smallest::backward ? stage_load.backward
                                     : quantity_ == smallest::both     ? stage_load.both
                                                                       : stage_load.both + moved;
    return stage_value > after ? stage_value : after;
  }

  // Visits every end of a stage within the limits, with its load and the value of the stage and the best remainder.
  template <class Visit>
  GPIPE_COLD constexpr void each_end(int stage, int begin, const Visit& visit) const {
    const load *sum = ranges_.sums(stage), before = sum[begin];
    const int furthest = ranges_.furthest(stage, begin),
              max_end = furthest < high_[stage + 1] ? furthest : high_[stage + 1];
    const bool moves = ranges_.moved.any();
    transfer_charges::running_charge charges(ranges_.moved, begin);
    int end = begin;
    if (!moves && end + 1 < low_[stage + 1]) end = low_[stage + 1] - 1;
    while (++end <= max_end) {
      if (moves) charges.add(end - 1);
      const load stage_load{sum[end].forward - before.forward, sum[end].backward - before.backward,
                            sum[end].both - before.both, sum[end].recompute - before.recompute};
      if (stage_load.forward > limits_.forward || stage_load.backward > limits_.backward ||
          stage_load.both > limits_.both)
        return;
      if (end < low_[stage + 1]) continue;
      const std::int64_t after = best_value(stage + 1, end), moved = charges.charge();
      if (after == unlimited || stage_load.both + moved > limits_.total) continue;
      visit(end, stage_load, combined(stage_load, moved, after));
    }
  }

 public:
  GPIPE_COLD constexpr explicit dynamic_program(const range_sums& ranges)
      : ranges_(ranges),
        layers_(ranges.problem.layers),
        stages_(ranges.problem.stages),
        low_(stages_),
        high_(stages_),
        best_values_((stages_ + 1) * (layers_ + 1)),
        queue_(layers_) {}

  /// The smallest value of any cut within the limits; `unlimited` if there is none.
  GPIPE_COLD constexpr std::int64_t run(const limits& within, smallest quantity) {
    limits_ = within;
    if (limits_.total < limits_.both) limits_.both = limits_.total;
    quantity_ = quantity;
    if (!find_bands()) return unlimited;
    best_value(stages_, layers_) = 0;
    for (int s = stages_ - 1; s >= 0; --s) {
      if (ranges_.moved.any() || !ranges_.monotone()) scan(s);
      else slide(s);
    }
    return best_value(0, 0);
  }

  /// After a run that found a cut: a cut of the smallest value. Each stage in turn is as close to an equal share of the
  /// remaining work as limits and value allow.
  GPIPE_COLD constexpr void choose(int* first) const {
    first[0] = 0;
    std::int64_t budget = best_value(0, 0);
    for (int s = 0; s < stages_; ++s) {
      const int begin = first[s], left = stages_ - s;
      const std::int64_t work = ranges_.range(s, begin, layers_).both, share = work / left;
      std::int64_t nearest = unlimited, used = 0;
      each_end(s, begin, [&](int end, const load& stage_load, std::int64_t value) {
        if (value > budget) return;
        const std::int64_t off = work > 0 ? stage_load.both - share : end - begin - (layers_ - begin) / left;
        const std::int64_t distance = off < 0 ? -off : off;
        if (distance < nearest || (distance == nearest && off <= 0)) {  // a tie: the larger one within the share
          nearest = distance;
          first[s + 1] = end;
          used = stage_load.once();
        }
      });
      if (quantity_ == smallest::sum) budget -= used;
    }
  }

 private:
  constexpr bool obeys(int stage, int begin, int end) const {
    const load stage_load = ranges_.range(stage, begin, end);
    return stage_load.forward <= limits_.forward && stage_load.backward <= limits_.backward &&
           stage_load.both <= limits_.both && end <= ranges_.reach(stage, begin);
  }

  GPIPE_COLD constexpr bool find_bands() {
    low_[stages_] = layers_;
    for (int s = stages_ - 1; s >= 0; --s) {
      low_[s] = low_[s + 1];
      while (low_[s] > s && obeys(s, low_[s] - 1, low_[s + 1])) --low_[s];
    }
    high_[0] = 0;
    for (int s = 0; s < stages_; ++s) {
      high_[s + 1] = high_[s];
      while (high_[s + 1] < layers_ - (stages_ - s - 1) && obeys(s, high_[s], high_[s + 1] + 1)) ++high_[s + 1];
    }
    for (int s = 0; s <= stages_; ++s)
      if (low_[s] > high_[s]) return false;
    return true;
  }

  // With transfers, or with limits that are not monotone: tries every end from every begin.
  GPIPE_COLD constexpr void scan(int stage) {
    for (int begin = low_[stage]; begin <= high_[stage]; ++begin) {
      std::int64_t best = unlimited;
      each_end(stage, begin, [&](int, const load&, std::int64_t value) {
        if (value < best) best = value;
      });
      best_value(stage, begin) = best;
    }
  }

  // Without transfers and with monotone limits: as the begin moves down, nearer ends are added. An end that a nearer
  // one beats is never best again, for its load grows at least as fast. So a queue of the other ends has the best one
  // at its head.
  GPIPE_COLD constexpr void slide(int stage) {
    int head = 0, tail = 0, furthest = high_[stage + 1];
    const auto value = [&](int begin, int i) {
      return combined(ranges_.range(stage, begin, queue_[i]), 0, best_value(stage + 1, queue_[i]));
    };
    for (int begin = high_[stage], next = furthest + 1; begin >= low_[stage]; --begin) {
      while (furthest > begin && !obeys(stage, begin, furthest)) --furthest;
      while (next > begin + 1 && next > low_[stage + 1]) {
        if (--next > furthest || best_value(stage + 1, next) == unlimited) continue;
        queue_[tail++] = next;
        while (tail - 1 > head && value(begin, tail - 1) <= value(begin, tail - 2)) queue_[--tail - 1] = next;
      }
      while (head < tail &&
             (queue_[head] > furthest || (head + 1 < tail && value(begin, head + 1) <= value(begin, head))))
        ++head;
      best_value(stage, begin) = head < tail ? value(begin, head) : unlimited;
    }
  }

  const range_sums& ranges_;
  int layers_, stages_;
  limits limits_{};
  smallest quantity_ = smallest::total;
  zeroed_array<int> low_, high_;
  zeroed_array<std::int64_t> best_values_;  // [stage][begin], within the bands
  zeroed_array<int> queue_;
};

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
