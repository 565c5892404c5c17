#pragma once

#include <gpipe/plan/partition/range_sums.hpp>

namespace gpipe::detail {

/// What a sweep makes smallest: the largest of these of a stage, or the sum of f + b over stages.
enum class smallest { forward, backward, both, total, sum };

/// What every stage must obey; `total` is f + b and the transfers.
struct limits {
  std::int64_t forward = unlimited, backward = unlimited, both = unlimited, total = unlimited;
};

/// The best way on from each place a stage may begin at, from the last stage to the first. A longest-prefix probe is
/// wrong where costs grow and shrink with a range (transfers) or where the next device may be unable to hold the next
/// slot; this is exact there, because it looks at every end that the limits allow.
///
/// The limits keep that short. Leaving transfers aside, stage s can begin no later than where the stages before it
/// get, and no earlier than where those from it on reach the end:
///
///     stage 0   |=========|
///     stage 1         |==========|             low[s] <= begin of stage s <= high[s]
///     stage 2                |=========|
class sweep {
  // Before its use: clang 14 evaluates no member template that it has yet to read.
  constexpr std::int64_t& rest(int stage, int begin) const { return rest_[stage * (slots_ + 1) + begin]; }

  // What this stage, holding that much, and a value of the stages behind it come to.
  constexpr std::int64_t joined(const load& held, std::int64_t moved, std::int64_t behind) const {
    if (what_ == smallest::sum) return held.both + behind;
    const std::int64_t own = what_ == smallest::forward    ? held.forward
                             : what_ == smallest::backward ? held.backward
                             : what_ == smallest::both     ? held.both
                                                           : held.both + moved;
    return own > behind ? own : behind;
  }

  // Every end of a stage within the limits, with its load and the value of that stage and the best behind it.
  template <class Visit>
  GPIPE_ONCE constexpr void each_end(int stage, int begin, const Visit& visit) const {
    const load *sum = all_.sums(stage), from = sum[begin];
    const int furthest = all_.furthest(stage, begin), most = furthest < high_[stage + 1] ? furthest : high_[stage + 1];
    const bool moves = all_.moved.any();
    crossings::meter meter(all_.moved, begin);
    int end = begin;
    if (!moves && end + 1 < low_[stage + 1]) end = low_[stage + 1] - 1;
    while (++end <= most) {
      if (moves) meter.take(end - 1);
      const load held{sum[end].forward - from.forward, sum[end].backward - from.backward, sum[end].both - from.both};
      if (held.forward > limits_.forward || held.backward > limits_.backward || held.both > limits_.both) return;
      if (end < low_[stage + 1]) continue;
      const std::int64_t behind = rest(stage + 1, end), moved = meter.charge();
      if (behind == unlimited || held.both + moved > limits_.total) continue;
      visit(end, held, joined(held, moved, behind));
    }
  }

 public:
  GPIPE_ONCE constexpr explicit sweep(const tables& all)
      : all_(all),
        slots_(all.of.slots),
        stages_(all.of.stages),
        low_(stages_),
        high_(stages_),
        rest_((stages_ + 1) * (slots_ + 1)),
        queue_(slots_) {}

  /// The smallest value of any cut within the limits; `unlimited` if there is none.
  GPIPE_ONCE constexpr std::int64_t run(const limits& within, smallest what) {
    limits_ = within;
    if (limits_.total < limits_.both) limits_.both = limits_.total;
    what_ = what;
    if (!find_bands()) return unlimited;
    rest(stages_, slots_) = 0;
    for (int s = stages_ - 1; s >= 0; --s) {
      if (all_.moved.any() || !all_.orderly()) scan(s);
      else slide(s);
    }
    return rest(0, 0);
  }

  /// After a run that found one: a cut of the smallest value, each stage in turn as close to an equal share of what is
  /// left as limits and value allow.
  GPIPE_ONCE constexpr void choose(int* first) const {
    first[0] = 0;
    std::int64_t budget = rest(0, 0);
    for (int s = 0; s < stages_; ++s) {
      const int begin = first[s], left = stages_ - s;
      const std::int64_t work = all_.range(s, begin, slots_).both, share = work / left;
      std::int64_t nearest = unlimited, spent = 0;
      each_end(s, begin, [&](int end, const load& held, std::int64_t value) {
        if (value > budget) return;
        const std::int64_t off = work > 0 ? held.both - share : end - begin - (slots_ - begin) / left;
        const std::int64_t distance = off < 0 ? -off : off;
        if (distance < nearest || (distance == nearest && off <= 0)) {  // a tie: the largest within its share
          nearest = distance;
          first[s + 1] = end;
          spent = held.both;
        }
      });
      if (what_ == smallest::sum) budget -= spent;
    }
  }

 private:
  constexpr bool obeys(int stage, int begin, int end) const {
    const load held = all_.range(stage, begin, end);
    return held.forward <= limits_.forward && held.backward <= limits_.backward && held.both <= limits_.both &&
           end <= all_.reach(stage, begin);
  }

  GPIPE_ONCE constexpr bool find_bands() {
    low_[stages_] = slots_;
    for (int s = stages_ - 1; s >= 0; --s) {
      low_[s] = low_[s + 1];
      while (low_[s] > s && obeys(s, low_[s] - 1, low_[s + 1])) --low_[s];
    }
    high_[0] = 0;
    for (int s = 0; s < stages_; ++s) {
      high_[s + 1] = high_[s];
      while (high_[s + 1] < slots_ - (stages_ - s - 1) && obeys(s, high_[s], high_[s + 1] + 1)) ++high_[s + 1];
    }
    for (int s = 0; s <= stages_; ++s)
      if (low_[s] > high_[s]) return false;
    return true;
  }

  // With transfers, or limits that change to and fro: tries every end from every begin.
  GPIPE_ONCE constexpr void scan(int stage) {
    for (int begin = low_[stage]; begin <= high_[stage]; ++begin) {
      std::int64_t best = unlimited;
      each_end(stage, begin, [&](int, const load&, std::int64_t value) {
        if (value < best) best = value;
      });
      rest(stage, begin) = best;
    }
  }

  // Without: as the begin moves down, nearer ends come and none that a nearer one beats is wanted again, for its load
  // grows as much or more. So a queue of the others has the best at its head.
  GPIPE_ONCE constexpr void slide(int stage) {
    int head = 0, tail = 0, furthest = high_[stage + 1];
    const auto value = [&](int begin, int i) {
      return joined(all_.range(stage, begin, queue_[i]), 0, rest(stage + 1, queue_[i]));
    };
    for (int begin = high_[stage], next = furthest + 1; begin >= low_[stage]; --begin) {
      while (furthest > begin && !obeys(stage, begin, furthest)) --furthest;
      while (next > begin + 1 && next > low_[stage + 1]) {
        if (--next > furthest || rest(stage + 1, next) == unlimited) continue;
        queue_[tail++] = next;
        while (tail - 1 > head && value(begin, tail - 1) <= value(begin, tail - 2)) queue_[--tail - 1] = next;
      }
      while (head < tail &&
             (queue_[head] > furthest || (head + 1 < tail && value(begin, head + 1) <= value(begin, head))))
        ++head;
      rest(stage, begin) = head < tail ? value(begin, head) : unlimited;
    }
  }

  const tables& all_;
  int slots_, stages_;
  limits limits_{};
  smallest what_ = smallest::total;
  scratch<int> low_, high_;
  scratch<std::int64_t> rest_;  // [stage][begin], within the bands
  scratch<int> queue_;
};

}  // namespace gpipe::detail
