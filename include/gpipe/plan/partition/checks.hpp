#pragma once

#include <cstdint>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/partition/problem.hpp>

// The conditions on a problem and on a cut. A violation throws an `error`.

namespace gpipe::detail {

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

}  // namespace gpipe::detail
