#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/problem.hpp>

namespace gpipe {

/// What a slot on one kind of device adds to a training step, at the least.
struct slot_step {
  std::int64_t forward = 0;  ///< of one micro-batch
  /// The part of one backward that comes last on its device and for which the stage before waits: not a second
  /// forward that may run early, and nothing where a schedule may put the parameters' gradients behind.
  std::int64_t chain = 0;
  std::int64_t work = 0;  ///< all that its device does for it in a step
};

namespace detail {

[[noreturn]] inline void bad_step(int slot, const slot_step& step) {  // not constexpr: see problem.hpp
  refuse({"a slot works ", step.work, " in a step, of which one micro-batch takes ", step.forward, " forward and ",
          step.chain, " back"},
         {"times are 0 or more, and one micro-batch is a part of a step"}, place{.slot = slot});
}

struct step_sums {
  std::int64_t forward = 0, chain = 0, work = 0;
};

}  // namespace detail

/// A step in which every micro-batch runs forward and backward in one piece each, as the costs say.
struct whole_backward {
  constexpr slot_step operator()(const partition_problem& p, int kind, int slot) const {
    const slot_cost& cost = p.costs[kind * p.slots + slot];
    if (cost.forward < 0 || cost.backward < 0) detail::bad_cost(slot, cost);
    const std::int64_t both = detail::added(cost.forward, cost.backward, p.slots, p.micro_batches);
    if (both > detail::unlimited / p.micro_batches) detail::cost_overflow(p.slots, p.micro_batches);
    return {cost.forward, cost.backward, p.micro_batches * both};
  }
};

/// A time that no training step beats, whatever the cut into stages (memory and transfers left out) and the schedule.
/// With f and c for forward and the chain of backward, and w for a stage's work in the step:
///
/// - Stage s cannot begin before a micro-batch has come through the stages before it, and after its last backward a
///   gradient goes back through them: a step takes sum over j < s of (f_j + c_j), and w_s.
/// - Its M chains begin when a micro-batch has gone forward through all stages and back to s; behind the last of its M
///   forwards one has still that way to go: a step takes sum f + sum c + (M - 1) max(f_s, c_s).
///
/// We bisect for the smallest time in which a cut obeys both for every stage. A longest-prefix probe is exact, for
/// both shrink with a range from either side; on unequal devices the sums over other stages count every slot where it
/// takes least, and stages may stay empty, which only lowers the bound. Throws as `partition` does.
template <class Step = whole_backward>
GPIPE_ONCE constexpr std::int64_t makespan_lower_bound(partition_problem p, const Step& step_of = {}) {
  p.goal = objective::bottleneck;  // of any schedule, so transfers are no mistake
  detail::require_problem(p);
  const int slots = p.slots, row = slots + 1;
  const std::int64_t beats = p.micro_batches - 1;
  const detail::scratch<detail::step_sums> sums(p.kinds * row);
  const detail::scratch<std::int64_t> passed(slots);  // f + c of the slots before, each where it takes least
  const detail::scratch<bool> used(p.kinds);
  for (int s = 0; s < p.stages; ++s) used[p.kind(s)] = true;
  std::int64_t most = 0;
  for (int l = 0; l < slots; ++l) {
    std::int64_t least = detail::unlimited, largest = 0;
    for (int k = 0; k < p.kinds; ++k)
      if (used[k]) {
        const slot_step step = step_of(p, k, l);
        if (step.forward < 0 || step.chain < 0 || step.work - step.forward < step.chain) detail::bad_step(l, step);
        const detail::step_sums& before = sums[k * row + l];
        sums[k * row + l + 1] = {before.forward + step.forward, before.chain + step.chain, before.work + step.work};
        const std::int64_t way = step.forward + step.chain;
        least = way < least ? way : least;
        largest = step.work > largest ? step.work : largest;
        if (way > (detail::unlimited - 1) / p.micro_batches) detail::cost_overflow(slots, p.micro_batches);
        largest = p.micro_batches * way > largest ? p.micro_batches * way : largest;
      }
    passed[l + 1] = passed[l] + least;
    if (most >= detail::unlimited - largest) detail::cost_overflow(slots, p.micro_batches);
    most += largest;
  }
  if (most > detail::unlimited / 2) detail::cost_overflow(slots, p.micro_batches);

  const auto need = [&, way = passed[slots]](int stage, int begin, int end) {
    const detail::step_sums *sum = sums.data() + p.kind(stage) * row, &from = sum[begin], &to = sum[end];
    const std::int64_t forward = to.forward - from.forward, chain = to.chain - from.chain;
    const std::int64_t own = passed[begin] + to.work - from.work;
    const std::int64_t whole = way + beats * (forward > chain ? forward : chain);
    return own > whole ? own : whole;
  };
  std::int64_t low = passed[slots], high = 2 * most, reached = 0, next = 0;
  const auto enough = [&](std::int64_t time) {
    reached = 0;
    next = detail::unlimited;
    for (int s = 0, begin = 0, width = slots / p.stages; s < p.stages; ++s) {
      int end = begin, last = slots;  // neighbours are alike: look first at the width of the one before
      for (int stride = width > 0 ? width : 1, further = 1; end < last;) {
        const int middle = stride < last - end ? end + stride : last - (last - end) / 2;
        if (need(s, begin, middle) <= time) {
          end = middle;
          stride = further;
          further *= 2;
        } else {
          last = middle - 1;
        }
      }
      if (const std::int64_t time_of = need(s, begin, end); time_of > reached) reached = time_of;
      if (end == slots) return true;
      if (const std::int64_t more = need(s, begin, end + 1); more < next) next = more;
      width = end - begin;
      begin = end;
    }
    return false;
  };
  for (std::int64_t time = low, stride = low / 128 + 1; low < high;) {
    if (enough(time)) high = reached;
    else low = next;
    time = stride < high - low ? low + stride : low + (high - low) / 2;
    stride = stride < (high - low) / 4 ? 4 * stride : high - low;
  }
  return low;
}

}  // namespace gpipe
