#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe::detail {

// A stage has a slot of memory for each micro-batch that it holds at once. The writer and the reader of a slot may be
// different stages: in shared memory an activation is written straight into the stage that reads it. So its slot is
// taken when the *writer* begins, and free when the reader does not need it any more.
//
//     1F1B, stage 1 of 3      tick  0   1   2   3   4   5   6   7   8
//     stage 0 writes F0's slot      F0  .   F1  .   F2  B0  F3  B1  .
//     stage 1 is done with it       .   F0  .   F1  B0  F2  B1  F3  B2      three slots; two micro-batches in flight
//
// A slot is taken again only in a later tick than the one in which it becomes free. So ticks order all cells and all
// waits for slots, and the first event that has not happened can always happen: no choice of slots stops a schedule
// whose table is right. Among the free slots the one that is free longest is taken, for the shortest wait.
//
// If transfers take time, a value on the way holds its slot, too: `on_the_way` ticks longer, so that links as slow as
// stages stay busy.
/// Assigns each micro-batch a slot from tick begin[m] until end[m], both included. Returns the number of slots, at
/// least `min`. `slot` may be null.
GPIPE_COLD constexpr int assign_slots(int micro_batches, const int* begin, const int* end, int min, int* slot) {
  const zeroed_array<int> order(micro_batches), free_since(micro_batches + min);
  // Sorted by insertion. They come in order, in forward, or from the last to the first, in fill-drain's backward.
  const bool falls = micro_batches > 0 && begin[0] > begin[micro_batches - 1];
  for (int n = 0; n < micro_batches; ++n) {
    const int m = falls ? micro_batches - 1 - n : n, earliest = falls ? begin[m] : begin[m] + 1;
    int i = n;
    for (; i > 0 && begin[order[i - 1]] >= earliest; --i) order[i] = order[i - 1];
    order[i] = m;
  }
  int count = 0, longest_free = -1;  // the slot that is free longest; -1: search for it
  for (; count < min; ++count) free_since[count] = -1;
  for (int i = 0; i < micro_batches; ++i) {
    const int m = order[i];
    if (longest_free < 0 && count > 0) {
      longest_free = 0;
      for (int p = 1; p < count; ++p)
        if (free_since[p] < free_since[longest_free]) longest_free = p;
    }
    int taken = longest_free;
    if (count == 0 || free_since[longest_free] >= begin[m]) {  // no slot is free: a stage that holds all searches once
      taken = count++;
      if (longest_free < 0 || end[m] < free_since[longest_free]) longest_free = taken;
    } else {
      longest_free = -1;
    }
    free_since[taken] = end[m];
    if (slot != nullptr) slot[m] = taken;
  }
  return count;
}

/// Ticks for which a slot is held longer if transfers take time.
constexpr int on_the_way(bool transfers) { return transfers ? 2 : 0; }

/// Assigns slots from a cell of the stage that writes until the last use by the stage that reads.
template <scheduler Schedule>
GPIPE_COLD constexpr int slots_between(tick_index<Schedule>& table, int writer, int cell_ticks::*begin, int reader,
                                       int cell_ticks::*end, int extra_ticks, int min, int* slot) {
  const int M = table.micro_batches();
  const zeroed_array<int> ticks(2 * M);
  const cell_ticks *const writer_ticks = table.of(writer), *const reader_ticks = table.of(reader);
  for (int m = 0; m < M; ++m) {
    ticks[m] = writer_ticks[m].*begin;
    ticks[M + m] = reader_ticks[m].*end + extra_ticks;
  }
  return assign_slots(M, ticks.data(), ticks.data() + M, min, slot);
}

/// Slots at stage `reader` for the activations that stage `writer` writes or, if both are equal, for the stage's inputs
/// from outside: from forward at `writer` until the parameter gradients at `reader` (until forward if the schedule does
/// not train). Returns the number of slots; `slot` has one element per micro-batch, or is null.
template <scheduler Schedule>
constexpr int stash_slots(detail::tick_index<Schedule>& table, int writer, int reader, int* slot = nullptr,
                          int on_the_way = 0) {
  using detail::cell_ticks;
  return detail::slots_between(table, writer, &cell_ticks::forward, reader,
                               table.schedule().trains ? &cell_ticks::retired : &cell_ticks::forward, on_the_way, 1,
                               slot);
}

/// Ticks by which a gradient from stage `writer` comes before its cell if the stages go round all workers. A backward
/// of one cell sends the gradient after its input part, half of its time or, after a recompute, a third. So gradients
/// reach the first worker, over all the others, while the last one still has parameter parts of the previous loop, and
/// would wait there for a slot:
///
///     worker 0   .   .   a0  a0  a1  a1  b0 ...    its gradients go to worker 2
///     worker 1   .   a0  a0  a1  a1  a2  a2
///     worker 2   a0  a0  a1  a1  a2  a2  b0 ...    which takes the first one here
template <scheduler Schedule>
constexpr int ticks_early(detail::tick_index<Schedule>& table, int writer, int reader) {
  const int first = table.worker_of(writer), last = table.worker_of(reader);
  return first < last ? (last - first) * 2 / 3 : 0;
}

/// Slots at stage `reader` for the gradients that the later stage `writer` writes: from backward at `writer` until the
/// parameter gradients at `reader`. At least two, so that one is written while the other is read.
template <scheduler Schedule>
constexpr int returned_slots(detail::tick_index<Schedule>& table, int writer, int reader, int* slot = nullptr,
                             int on_the_way = 0) {
  using detail::cell_ticks;
  return detail::slots_between(table, writer, &cell_ticks::backward, reader, &cell_ticks::retired,
                               on_the_way + ticks_early(table, writer, reader), table.micro_batches() < 2 ? 1 : 2,
                               slot);
}

/// Slots for the gradients that a stage holds between backward's input part and its parameter part.
template <scheduler Schedule>
constexpr int held_slots(detail::tick_index<Schedule>& table, int stage, int* slot = nullptr) {
  using detail::cell_ticks;
  return detail::slots_between(table, stage, &cell_ticks::backward, stage, &cell_ticks::retired, 0, 1, slot);
}

/// Assigns every micro-batch of a stage a slot for its working set, one for forward and one for backward: the lowest
/// free slot. They are equal if the set is kept in between. Returns the number of slots; `forward` and `backward` have
/// `micro_batches` elements.
template <scheduler Schedule>
GPIPE_COLD constexpr int working_set_slots(const Schedule& schedule, int stages, int micro_batches,
                                           const recompute_choice& choice, int stage, int* forward, int* backward) {
  detail::require_admitted(schedule, stages, micro_batches);
  detail::tick_index<Schedule> table(schedule, stages, micro_batches);
  const detail::zeroed_array<bool> recomputed(micro_batches), busy(micro_batches + 1);
  flag_recomputed(table, choice, stage, recomputed.data());
  int count = 0;
  const auto take = [&] {
    int slot = 0;
    while (busy[slot]) ++slot;
    if (slot >= count) count = slot + 1;
    busy[slot] = true;
    return slot;
  };
  table.walk(table.worker_of(stage), [&](int, const cell& c) {
    if (c.stage != stage) return;
    const int m = c.micro_batch;
    const bool keeps = schedule.trains && !recomputed[m];
    if (c.kind == action_kind::forward) {
      forward[m] = backward[m] = take();
      busy[forward[m]] = keeps;
      return;
    }
    if (c.kind != action_kind::backward_parameters && !keeps) backward[m] = take();
    if (c.kind != action_kind::backward_input) busy[backward[m]] = false;
  });
  return count;
}

}  // namespace gpipe::detail
