#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/equal_devices.hpp>
#include <gpipe/plan/partition/objective.hpp>

namespace gpipe::detail {

/// A lower bound on the work of a layer on one kind of device in a training step.
struct layer_step {
  std::int64_t forward = 0;  ///< for one micro-batch
  /// The last part of one backward on its device, for which the stage before waits. A second forward, which may run
  /// early, is not part of it; nor are the parameters' gradients if a schedule may compute them later.
  std::int64_t chain = 0;
  std::int64_t work = 0;  ///< all work of its device for the layer in a step
};

[[noreturn]] inline void bad_step(int layer, const layer_step& step) {  // not constexpr: see objective.hpp
  throw_error({"a layer's work in a step is ", step.work, ", of which one micro-batch takes ", step.forward,
               " forward and ", step.chain, " back"},
              {"times must be at least 0, and work at least forward + chain"}, location{.layer_index = layer});
}

struct step_sums {
  std::int64_t forward = 0, chain = 0, work = 0;
};

/// A step in which every micro-batch runs forward once and backward in one part, with the problem's costs.
struct whole_backward {
  constexpr layer_step operator()(const partition_problem& p, int kind, int layer) const {
    const pass_cost& cost = p.costs[kind * p.layers + layer];
    if (cost.forward < 0 || cost.backward < 0) detail::bad_cost(layer, cost);
    const std::int64_t both = detail::added(cost.forward, cost.backward, p.layers, p.micro_batches);
    if (both > detail::unlimited / p.micro_batches) detail::cost_overflow(p.layers, p.micro_batches);
    return {cost.forward, cost.backward, p.micro_batches * both};
  }
};

/// A lower bound on the duration of a training step, for any cut into stages (without memory and transfers) and any
/// schedule. With f and c for forward and the chain of backward, and w for a stage's work in the step:
///
/// - Stage s cannot begin before a micro-batch has passed the stages before it, and after its last backward a gradient
///   goes back through them: a step takes at least sum over j < s of (f_j + c_j), plus w_s.
/// - Its M chains begin after a micro-batch has gone forward through all stages and back to s; after the last of its M
///   forwards, one micro-batch still goes the same way: a step takes at least sum f + sum c + (M - 1) max(f_s, c_s).
///
/// We bisect for the smallest time in which some cut satisfies both for every stage. A longest-prefix probe is exact,
/// because both shrink with a range from either side. On unequal devices the sums over other stages use the smallest
/// time of every layer, and stages may be empty; both only lower the bound. Throws as `partition` does.
template <class Step = whole_backward>
GPIPE_COLD constexpr std::int64_t makespan_lower_bound(partition_problem p, const Step& step_of = {}) {
  p.goal = objective::bottleneck;  // the bound is for any schedule, so transfers are valid
  detail::require_problem(p);
  const int layers = p.layers, row = layers + 1;
  const std::int64_t periods = p.micro_batches - 1;
  const detail::zeroed_array<detail::step_sums> sums(p.kinds * row);
  const detail::zeroed_array<std::int64_t> passed(layers);  // prefix sums of f + c, each layer on its fastest device
  const detail::zeroed_array<bool> used(p.kinds);
  for (int s = 0; s < p.stages; ++s) used[p.kind(s)] = true;
  std::int64_t total = 0;
  for (int l = 0; l < layers; ++l) {
    std::int64_t fastest = detail::unlimited, largest = 0;
    for (int k = 0; k < p.kinds; ++k)
      if (used[k]) {
        const layer_step step = step_of(p, k, l);
        if (step.forward < 0 || step.chain < 0 || step.work - step.forward < step.chain) detail::bad_step(l, step);
        const detail::step_sums& before = sums[k * row + l];
        sums[k * row + l + 1] = {before.forward + step.forward, before.chain + step.chain, before.work + step.work};
        const std::int64_t way = step.forward + step.chain;
        fastest = way < fastest ? way : fastest;
        largest = step.work > largest ? step.work : largest;
        if (way > (detail::unlimited - 1) / p.micro_batches) detail::cost_overflow(layers, p.micro_batches);
        largest = p.micro_batches * way > largest ? p.micro_batches * way : largest;
      }
    passed[l + 1] = passed[l] + fastest;
    if (total >= detail::unlimited - largest) detail::cost_overflow(layers, p.micro_batches);
    total += largest;
  }
  if (total > detail::unlimited / 2) detail::cost_overflow(layers, p.micro_batches);

  const auto need = [&, way = passed[layers]](int stage, int begin, int end) {
    const detail::step_sums *sum = sums.data() + p.kind(stage) * row, &before = sum[begin], &through = sum[end];
    const std::int64_t forward = through.forward - before.forward, chain = through.chain - before.chain;
    const std::int64_t by_work = passed[begin] + through.work - before.work;
    const std::int64_t by_chain = way + periods * (forward > chain ? forward : chain);
    return by_work > by_chain ? by_work : by_chain;
  };
  std::int64_t low = passed[layers], high = 2 * total, reached = 0, next = 0;
  const auto enough = [&](std::int64_t time) {
    reached = 0;
    next = detail::unlimited;
    for (int s = 0, begin = 0, width = layers / p.stages; s < p.stages; ++s) {
      const int end = largest_end(begin, layers, width, [&](int middle) { return need(s, begin, middle) <= time; });
      if (const std::int64_t time_of = need(s, begin, end); time_of > reached) reached = time_of;
      if (end == layers) return true;
      if (const std::int64_t longer = need(s, begin, end + 1); longer < next) next = longer;
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

}  // namespace gpipe::detail
