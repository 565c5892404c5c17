#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/recompute.hpp>
#include <gpipe/plan/action.hpp>
#include <gpipe/plan/schedule/kind.hpp>
#include <gpipe/plan/scratch.hpp>

#include <initializer_list>

namespace gpipe {

namespace detail {

[[noreturn]] inline void bad_worker(const char* schedule, int worker, int workers) {
  refuse({schedule, " has no worker ", worker}, {"workers are numbered from 0 to ", workers - 1});
}
[[noreturn]] inline void bad_link(int index, const link& link, int stages) {
  refuse({"link ", index, " goes from stage ", link.from, " to stage ", link.to},
         {"links lead from a stage to a later one of the ", stages, " and ascend in (from, to)"});
}

constexpr void require_links(int stages, const link* links, int link_count) {
  for (int i = 0; i < link_count; ++i) {
    const link& it = links[i];
    if (it.from < 0 || it.from >= it.to || it.to >= stages ||
        (i > 0 && (links[i - 1].from > it.from || (links[i - 1].from == it.from && links[i - 1].to > it.to))))
      bad_link(i, it, stages);
  }
}

/// `lower` without its checks.
template <scheduler Schedule, class Sink>
GPIPE_ONCE constexpr void lower_admitted(int stages, int micro_batches, recompute_mode mode, const link* links,
                                         int link_count, int worker, Sink&& sink) {
  const scratch<int> indices(2 * link_count);  // of the links that reach this worker, and that leave it
  int *const incoming = indices.data(), *const outgoing = incoming + link_count;
  int incoming_count = 0, outgoing_count = 0;
  for (int i = 0; i < link_count; ++i) {
    const bool leaves = Schedule::worker_of(stages, links[i].from) == worker;
    const bool reaches = Schedule::worker_of(stages, links[i].to) == worker;
    if (reaches && !leaves) incoming[incoming_count++] = i;
    if (leaves && !reaches) outgoing[outgoing_count++] = i;
  }

  cell c;
  const auto put = [&](act kind) { sink(instruction{kind, c.stage, c.micro_batch, -1}); };
  const auto receive_activations = [&] {
    for (int i = 0; i < incoming_count; ++i)
      if (links[incoming[i]].to == c.stage)
        sink(instruction{act::receive_activation, c.stage, c.micro_batch, incoming[i]});
  };
  const auto send_activations = [&] {
    for (int i = 0; i < outgoing_count; ++i)
      if (links[outgoing[i]].from == c.stage)
        sink(instruction{act::send_activation, c.stage, c.micro_batch, outgoing[i]});
  };
  const auto receive_gradients = [&] {
    for (int i = outgoing_count - 1; i >= 0; --i)
      if (links[outgoing[i]].gradient && links[outgoing[i]].from == c.stage)
        sink(instruction{act::receive_gradient, c.stage, c.micro_batch, outgoing[i]});
  };
  const auto send_gradients = [&] {
    for (int i = incoming_count - 1; i >= 0; --i)
      if (links[incoming[i]].gradient && links[incoming[i]].to == c.stage)
        sink(instruction{act::send_gradient, c.stage, c.micro_batch, incoming[i]});
  };
  const auto sends_gradients = [&] {
    for (int i = 0; i < incoming_count; ++i)
      if (links[incoming[i]].gradient && links[incoming[i]].to == c.stage) return true;
    return false;
  };

  const int ticks = Schedule::ticks(stages, micro_batches);
  for (int t = 0; t < ticks; ++t) {
    c = Schedule::at(stages, micro_batches, worker, t);
    if (c.kind == act::idle) continue;
    if (c.kind == act::forward) {
      receive_activations();
      put(act::forward);
      send_activations();
    } else if (c.kind == act::backward_parameters) {
      put(act::backward_parameters);
    } else {
      if (recomputes(mode, c.micro_batch, Schedule::forwarded_last(stages, micro_batches, c.stage)))
        put(act::recompute);
      receive_gradients();
      const bool split = c.kind == act::backward_input || sends_gradients();
      put(split ? act::backward_input : act::backward);
      send_gradients();
      if (split && c.kind == act::backward) put(act::backward_parameters);
    }
  }
  if constexpr (Schedule::trains)
    for (const act kind : {act::reduce, act::update})
      for (int s = 0; s < stages; ++s)
        if (Schedule::worker_of(stages, s) == worker) sink(instruction{kind, s, -1, -1});
}

}  // namespace detail

/// Lowers a schedule to one worker's program: calls `sink(instruction)` for each line of a step, in order.
///
///     F_m  [receive activation]...  forward  [send activation]...
///     B_m  [recompute]  [receive gradient]...  backward input  [send gradient]...  backward parameters
///
/// - Recompute starts before the gradient arrives, and the gradient leaves before the parameter part. A stage that
///   sends no gradient runs the fused `backward`. Cells that are split already stay where the table has them.
/// - After the last cell of a schedule that trains: `reduce` of each stage of the worker, then `update` of each.
/// - A link between two stages of one worker is no transfer and makes no instruction.
///
/// `links` ascend in (from, to). Forward walks them ascending, backward descending: so within each micro-batch *both*
/// ends of all links follow one total order, with what a stage receives before what it sends, and sends that wait for
/// their receive cannot wait in a circle.
///
/// Throws if the schedule does not admit (stages, micro_batches), or the worker or a link does not exist.
template <scheduler Schedule, class Sink>
constexpr void lower(Schedule, int stages, int micro_batches, recompute_mode mode, const link* links, int link_count,
                     int worker, Sink&& sink) {
  detail::require_admitted<Schedule>(stages, micro_batches);
  if (worker < 0 || worker >= Schedule::workers(stages))
    detail::bad_worker(Schedule::name(), worker, Schedule::workers(stages));
  detail::require_links(stages, links, link_count);

  detail::lower_admitted<Schedule>(stages, micro_batches, mode, links, link_count, worker, sink);
}

/// The same for a schedule chosen at run time.
template <class Sink>
constexpr void lower(schedule_kind kind, int stages, int micro_batches, recompute_mode mode, const link* links,
                     int link_count, int worker, Sink&& sink) {
  with_schedule(kind, [&](auto schedule) {
    lower(schedule, stages, micro_batches, mode, links, link_count, worker, sink);
  });
}

/// How many instructions `lower` makes.
template <class Schedule>
constexpr int program_length(Schedule schedule, int stages, int micro_batches, recompute_mode mode, const link* links,
                             int link_count, int worker) {
  int length = 0;
  lower(schedule, stages, micro_batches, mode, links, link_count, worker, [&](const instruction&) { ++length; });
  return length;
}

/// Gives every micro-batch of a stage a place for its input: slot[m] is the lowest one that is free when m runs
/// forward, in the worker's order, and it is free again after the parameter gradients of m (after forward if the
/// schedule does not train). Returns how many places there are; `slot` has `micro_batches` elements.
template <scheduler Schedule>
GPIPE_ONCE constexpr int stash_slots(Schedule, int stages, int micro_batches, int stage, int* slot) {
  detail::require_admitted<Schedule>(stages, micro_batches);
  const detail::scratch<bool> busy(micro_batches);
  const int worker = Schedule::worker_of(stages, stage), ticks = Schedule::ticks(stages, micro_batches);
  int count = 0, lowest = 0;  // no place below `lowest` is free
  for (int t = 0; t < ticks; ++t) {
    const cell c = Schedule::at(stages, micro_batches, worker, t);
    if (c.stage != stage) continue;
    if (c.kind == act::forward) {
      while (busy[lowest]) ++lowest;
      slot[c.micro_batch] = lowest;
      busy[lowest] = Schedule::trains;
      if (lowest >= count) count = lowest + 1;
    } else if (c.kind == act::backward || c.kind == act::backward_parameters) {
      busy[slot[c.micro_batch]] = false;
      if (slot[c.micro_batch] < lowest) lowest = slot[c.micro_batch];
    }
  }
  return count;
}

constexpr int stash_slots(schedule_kind kind, int stages, int micro_batches, int stage, int* slot) {
  return with_schedule(kind, [&](auto schedule) { return stash_slots(schedule, stages, micro_batches, stage, slot); });
}

}  // namespace gpipe
