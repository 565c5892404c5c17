#pragma once

#include <cstdint>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/problem.hpp>

// The conditions on a problem and on a cut. A violation throws an `error`.

namespace gpipe {

namespace detail {

// Not constexpr: a call in constant evaluation is an error, and the compiler shows the call with its numbers.
[[noreturn]] inline void bad_stages(int stages, int layers) {
  throw_error({"stages is ", stages, ", but the model has ", several(layers, "layer")},
              {"choose 1 to ", layers, ": no stage may be empty"});
}
[[noreturn]] inline void bad_micro_batches(int micro_batches) {
  throw_error({"micro_batches is ", micro_batches}, {"choose at least 1"});
}
[[noreturn]] inline void bad_cost(int layer, const pass_cost& cost) {
  throw_error({"a cost is negative: forward ", cost.forward, ", backward ", cost.backward},
              {"costs are times; give at least 0"}, location{.layer_index = layer});
}
[[noreturn]] inline void bad_recompute(int layer, const pass_cost& cost) {
  throw_error({"recompute is ", cost.recompute, ", and backward, which contains it, is ", cost.backward},
              {"give 0 to ", cost.backward}, location{.layer_index = layer});
}
[[noreturn]] inline void cost_overflow(int layers, int micro_batches) {
  throw_error(
      {"the costs of ", several(layers, "layer"), " over ", several(micro_batches, "micro-batch"), " exceed 64 bits"},
      {"use a larger unit of time"});
}
[[noreturn]] inline void bad_kind(int stage, int kind, int kinds) {
  throw_error({"the stage's kind of device is ", kind, ", but there are ", several(kinds, "kind")},
              {"choose 0 to ", kinds - 1, ", or give the costs on each kind"}, location{.stage = stage});
}
[[noreturn]] inline void bad_transfer(int index, int writer, int reader, std::int64_t time, int layers) {
  throw_error(
      {"transfer ", index, " goes from layer ", writer, " to layer ", reader, " of ", layers, " in time ", time},
      {"its readers must follow the writer in ascending order, and its time must be at least 0"});
}
[[noreturn]] inline void transfers_in_fill_drain(int transfers) {
  throw_error({"transfer_count is ", transfers, ", but objective::fill_drain is for free transfers"},
              {"choose objective::bottleneck, or remove the transfers"});
}
// If one layer alone does not fit any stage, the error names it; -1: there is no such layer.
[[noreturn]] inline void throw_misfit(int unplaceable, int layers, int stages) {
  if (unplaceable >= 0)
    throw_error({"layer ", unplaceable, " alone does not fit the memory of any stage"},
                {"use smaller micro-batches or devices with more memory"}, location{.layer_index = unplaceable});
  throw_error({"no cut of ", several(layers, "layer"), " into ", several(stages, "stage"), " fits the memory"},
              {"use more stages, smaller micro-batches, or recompute"});
}
[[noreturn]] inline void bad_cut(int stage, int begin, int end) {
  throw_error({"the cut gives the stage the layers [", begin, ", ", end, ")"},
              {"cuts must ascend strictly from 0 to the number of layers"}, location{.stage = stage});
}
[[noreturn]] inline void bad_cut_length(int count, int stages) {
  throw_error({"the cut names ", several(count, "layer"), ", but ", several(stages, "stage"), " need ", stages - 1},
              {"give the first layer of every stage but the first"});
}
[[noreturn]] inline void stage_misfits(int stage, int begin, int end) {
  throw_error({"the layers [", begin, ", ", end, ") do not fit the memory of the stage"},
              {"give the stage fewer layers, or let the partition choose the cut"}, location{.stage = stage});
}

constexpr void require_cost(int layer, const pass_cost& cost) {
  if (cost.forward < 0 || cost.backward < 0) bad_cost(layer, cost);
  if (cost.recompute < 0 || cost.recompute > cost.backward) bad_recompute(layer, cost);
}

constexpr std::int64_t added(std::int64_t a, std::int64_t b, int layers, int micro_batches) {
  if (a >= unlimited - b) cost_overflow(layers, micro_batches);
  return a + b;
}

constexpr void require_counts(int layers, int stages, int micro_batches) {
  if (stages < 1 || stages > layers) bad_stages(stages, layers);
  if (micro_batches < 1) bad_micro_batches(micro_batches);
}

/// Checks everything but the costs of layers, which are checked when they are summed.
constexpr void require_problem(const partition_problem& p) {
  require_counts(p.layers, p.stages, p.micro_batches);
  for (int s = 0; p.kind_of != nullptr && s < p.stages; ++s)
    if (p.kind_of[s] < 0 || p.kind_of[s] >= p.kinds) bad_kind(s, p.kind_of[s], p.kinds);
  if (p.goal == objective::fill_drain && p.transfer_count > 0) transfers_in_fill_drain(p.transfer_count);
  for (int i = 0; i < p.transfer_count; ++i) {
    const transfer& t = p.transfers[i];
    if (t.reader_count < 1 || t.time < 0) bad_transfer(i, t.writer, t.writer, t.time, p.layers);
    for (int r = 0, before = t.writer + 1; r < t.reader_count; before = t.reader(r++))
      if (t.writer < 0 || t.reader(r) < before || t.reader(r) >= p.layers)
        bad_transfer(i, t.writer, t.reader(r), t.time, p.layers);
    if (t.time > unlimited / 2) cost_overflow(p.layers, p.micro_batches);
  }
}

/// The first layer that does not fit the memory of any stage; -1: every layer fits one.
template <class Fits>
constexpr int unplaceable_layer(const Fits& fits, int layers, int stages) {
  for (int l = 0; l < layers; ++l) {
    bool placeable = false;
    for (int s = 0; s < (limits_stages<Fits> ? stages : 1) && !placeable; ++s)
      placeable = stage_fits(fits, s, l, l + 1);
    if (!placeable) return l;
  }
  return -1;
}

/// Throws unless stage s can hold the layers [first[s], first[s + 1]): they ascend strictly from 0 to `layers`, and
/// each range fits (`fits(begin, end)`, or `fits(stage, begin, end)` if the limits of stages differ).
template <class Fits = fits_always>
constexpr void require_cut(const int* first, int layers, int stages, const Fits& fits = {}) {
  for (int s = 0; s < stages; ++s) {
    const int begin = first[s], end = first[s + 1];
    if (end <= begin || (s == 0 && begin != 0) || end > layers || (s == stages - 1 && end != layers))
      detail::bad_cut(s, begin, end);
    if (!detail::stage_fits(fits, s, begin, end)) detail::stage_misfits(s, begin, end);
  }
}

/// Checks a custom cut, `between`: the first layer of every stage but the first, `count` of them. Writes it with its
/// two ends, stages + 1 layers.
template <class Fits = fits_always>
constexpr void take_cut(const int* between, int count, int layers, int stages, int* first, const Fits& fits = {}) {
  if (count != stages - 1) detail::bad_cut_length(count, stages);
  first[0] = 0;
  for (int s = 1; s < stages; ++s) first[s] = between[s - 1];
  first[stages] = layers;
  require_cut(first, layers, stages, fits);
}

/// The cost of a range of layers, or the limits of every stage.
struct load {
  std::int64_t forward = 0, backward = 0, both = 0;
  std::int64_t recompute = 0;  ///< see `pass_cost`; a probe does not sum it

  constexpr std::int64_t once() const { return both - recompute; }
};

/// The objective of a cut. Throws if a count, the cut or a cost is not valid, or if 64 bits do not suffice.
///
/// With r for the part of b that runs forward again, a fill-drain step with free transfers takes
///
///     sum f + sum (b - r) + (M - 1) (max f + max b).
///
/// The first gradient finds no stage that still runs forward again, for it belongs to the last forward. If this
/// micro-batch runs forward again too, every stage does so after its last forward, and the gradient waits for the stage
/// at which this ends last: the two sums become
///
///     max over stages t of  r of t + sum over stages s <= t of (f + b - r).
constexpr std::int64_t objective_of(const partition_problem& p, const int* first) {
  detail::require_problem(p);
  require_cut(first, p.layers, p.stages);
  const auto add = [&p](std::int64_t a, std::int64_t b) { return detail::added(a, b, p.layers, p.micro_batches); };
  std::int64_t sum = 0, turn = 0, forward = 0, backward = 0, bottleneck = 0;
  const detail::zeroed_array<std::int64_t> moved(p.stages);
  if (p.transfer_count > 0) {
    const detail::zeroed_array<int> stage_of(p.layers);
    for (int s = 0; s < p.stages; ++s)
      for (int l = first[s]; l < first[s + 1]; ++l) stage_of[l] = s;
    for (int i = 0; i < p.transfer_count; ++i) {
      const transfer& transfer = p.transfers[i];
      const int source = stage_of[transfer.writer];
      if (stage_of[transfer.last_reader()] > source) moved[source] = add(moved[source], transfer.charge());
      for (int r = 0, before = source; r < transfer.reader_count; before = stage_of[transfer.reader(r++)]) {
        const int target = stage_of[transfer.reader(r)];
        if (target > before) moved[target] = add(moved[target], transfer.charge());
      }
    }
  }
  for (int s = 0; s < p.stages; ++s) {
    const pass_cost* costs = p.costs_on(s);
    pass_cost stage_cost{};
    for (int l = first[s]; l < first[s + 1]; ++l) {
      detail::require_cost(l, costs[l]);
      stage_cost.forward = add(stage_cost.forward, costs[l].forward);
      stage_cost.backward = add(stage_cost.backward, costs[l].backward);
      stage_cost.recompute += costs[l].recompute;
    }
    const std::int64_t both = add(stage_cost.forward, stage_cost.backward), total = add(both, moved[s]);
    sum = add(sum, both - stage_cost.recompute);
    if (const std::int64_t turned = p.recomputes_first ? add(sum, stage_cost.recompute) : sum; turned > turn)
      turn = turned;
    if (stage_cost.forward > forward) forward = stage_cost.forward;
    if (stage_cost.backward > backward) backward = stage_cost.backward;
    if (total > bottleneck) bottleneck = total;
  }
  if (p.goal == objective::bottleneck) return bottleneck;
  const std::int64_t period = add(forward, backward), periods = p.micro_batches - 1;
  if (periods > 0 && period > detail::unlimited / periods) detail::cost_overflow(p.layers, p.micro_batches);
  return add(turn, periods * period);
}

}  // namespace detail

/// The duration of a fill-drain step with equal micro-batches, equal devices and free transfers,
///
///     sum f + sum b + (M - 1) (max f + max b),
///
/// over stages s with the layers [first[s], first[s + 1]). The two maxima may belong to different stages.
constexpr std::int64_t fill_drain_makespan(const pass_cost* costs, int layers, const int* first, int stages,
                                           int micro_batches) {
  return detail::objective_of({layers, stages, micro_batches, costs}, first);
}

/// The fill-drain step of stages that run forward again for different numbers of micro-batches.
///
/// A stage that keeps w working sets runs forward again for all micro-batches except the w whose gradients come first.
/// So its k-th backward takes c(k) = b for k <= w, and b + f for k > w. With free transfers a step takes
///
///     sum (f + b) + (M - 1) max f + the longest path,
///
/// where a path begins after the last stage's first backward and makes M - 1 steps, for k = 2 ... M. Each costs the
/// c(k) of one stage, and the stages never ascend:
///
///     k         2  3  4  5
///     stage 2   +--+             the longest path over the stages s and after for the first j steps:
///     stage 1      +--+          h(s, j) = max(h(s + 1, j), h(s, j - 1) + c(j + 1))
///     stage 0         +--+
class backward_path {
 public:
  constexpr explicit backward_path(int micro_batches) : steps_(micro_batches - 1) {}

  /// The elements of an array h(s, 0) ... h(s, M - 1).
  constexpr int size() const { return steps_ + 1; }

  /// Writes h of a stage, given h of the stage after; both may be one array.
  constexpr void extend(const std::int64_t* after, std::int64_t forward, std::int64_t backward, int working_sets,
                        std::int64_t* h) const {
    h[0] = 0;
    for (int j = 1; j <= steps_; ++j) {
      const std::int64_t path = h[j - 1] + backward + (j + 1 > working_sets ? forward : 0);
      h[j] = after[j] > path ? after[j] : path;
    }
  }
  /// The minimum of the whole path if a stage before has a backward of at least `backward`.
  constexpr std::int64_t shortest(const std::int64_t* h, std::int64_t backward) const {
    std::int64_t longest = 0;
    for (int j = 0; j <= steps_; ++j)
      if (const std::int64_t path = h[j] + (steps_ - j) * backward; path > longest) longest = path;
    return longest;
  }

 private:
  int steps_;
};

}  // namespace gpipe
