#pragma once

#include <cstdint>

#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>

namespace gpipe {

namespace detail {

/// While group_gradients is still 0, each parameter part comes alone.
template <scheduler Schedule>
constexpr tick_index<Schedule> table_of(const Schedule& schedule, const plan_options& o) {
  const int group = o.group_gradients < o.micro_batches ? o.group_gradients : o.micro_batches;
  return {schedule, o.stages, o.micro_batches, group > 1 ? group : 1};
}

// A schedule may have a formula for the slots between two stages; else its rows are read.

template <scheduler Schedule>
constexpr int stash_count(tick_index<Schedule>& table, const plan_options& o, int writer, int reader) {
  const Schedule& schedule = table.schedule();
  if constexpr (requires { schedule.stash_slots(1, 1, 0, 1, 0); })
    if (const int memory_slots =
            schedule.stash_slots(o.stages, o.micro_batches, writer, reader, on_the_way(o.cost_transfers));
        memory_slots >= 0)
      return memory_slots;
  return stash_slots(table, writer, reader, nullptr, on_the_way(o.cost_transfers));
}

template <scheduler Schedule>
constexpr int returned_count(tick_index<Schedule>& table, const plan_options& o, int writer, int reader) {
  const Schedule& schedule = table.schedule();
  const int late = on_the_way(o.cost_transfers), group = table.group_gradients();
  int memory_slots = -1;
  if (!schedule.trains) return 0;
  if constexpr (requires { schedule.returned_slots(1, 1, 0, 1, 0, 1); })
    memory_slots = schedule.returned_slots(o.stages, o.micro_batches, writer, reader, late, group);
  else if constexpr (requires { schedule.returned_slots(1, 1, 0, 1, 0); })
    memory_slots = group == 1 ? schedule.returned_slots(o.stages, o.micro_batches, writer, reader, late) : -1;
  return memory_slots >= 0 ? memory_slots : returned_slots(table, writer, reader, nullptr, late);
}

/// Two slots, so that one is written while the other leaves.
template <scheduler Schedule>
constexpr outgoing_slots outgoing_slots_of(tick_index<Schedule>& table, const plan_options& o, int stage) {
  if (!o.separate_memory) return {};
  const int memory_slots = o.micro_batches < 2 ? 1 : 2;
  const auto leaves_for = [&](int neighbour) {
    return neighbour >= 0 && neighbour < o.stages && table.worker_of(neighbour) != table.worker_of(stage);
  };
  return {leaves_for(stage + 1) ? memory_slots : 0, leaves_for(stage - 1) ? memory_slots : 0, memory_slots};
}

// change: a recompute mode
/// Whether a stage runs all forwards before its first backward, if it recomputes nothing. So does each layer with one
/// micro-batch, recomputed or not.
template <scheduler Schedule>
constexpr bool turns_once(tick_index<Schedule>& table, const plan_options& o, int stage, int in_flight) {
  if (!table.schedule().trains || o.micro_batches == 1) return true;
  const recompute_mode mode = o.recompute_whole();
  return (mode == recompute_mode::never || mode == recompute_mode::as_needed) && in_flight == o.micro_batches &&
         !splits_backward(table, stage);
}

constexpr void raise(int& max, int count) {
  if (count > max) max = count;
}

template <scheduler Schedule>
constexpr memory_requirements requirements_beside_skips(tick_index<Schedule>& table, const plan_options& o, int stage) {
  const Schedule& schedule = table.schedule();
  memory_requirements needs{o.all_micro_batches(), o.micro_batch_size,
                            schedule.in_flight(o.stages, o.micro_batches, stage), 1,
                            schedule.trains ? o.optimizer_moments : 0};
  needs.trains = schedule.trains;
  needs.tensor_rule = schedule.trains ? o.tensor_rule : nullptr;
  needs.averages = schedule.trains && o.average_weights;
  needs.shares = schedule.trains ? o.shares() : 1;
  // All micro-batches of a replica add to a gradient, one after the other or in one call, before it may leave. A
  // parameter part that reads recomputed values comes before its turn.
  needs.gradients_leave = needs.shares > 1 && o.shard == shard::gradients &&
                          table.group_gradients() >= o.micro_batches && o.recompute_layers.empty();
  needs.turns_once = turns_once(table, o, stage, needs.in_flight);
  needs.packed = default_packing(o, needs);
  if (needs.trains && may_pack_on_the_way(o, stage)) needs.rows_on_the_way = many_rows;
  needs.split = splits_backward(table, stage);
  if (needs.split) {
    needs.kept_copies = fewest_working_sets(table, stage);
    needs.held = held_slots(table, stage);
  }
  if (table.group_gradients() > 1) {
    needs.split = true;
    needs.held = table.group_gradients();
  }
  if (o.recompute_whole() == recompute_mode::never) raise(needs.kept_copies, needs.in_flight);
  needs.stash = {stage > 0 ? stash_count(table, o, stage - 1, stage) : 0, 0};
  needs.outgoing = outgoing_slots_of(table, o, stage);
  needs.remote_replicas = o.separate_memory && needs.trains ? o.replicas - 1 : 0;
  needs.returned = {stage + 1 < o.stages ? returned_count(table, o, stage + 1, stage) : 0, 0};
  return needs;
}

}  // namespace detail

/// The numbers on which the memory of a stage depends besides its layers, for any cut before and after it: the
/// schedule's micro-batches in flight, and the number of working sets that it keeps. As needed: the fewest; see
/// `max_working_sets`. A value that skips a stage, either way, has the maximum of slots over the stages that may send
/// it.
template <scheduler Schedule>
GPIPE_COLD constexpr memory_requirements requirements_of(const Schedule& schedule, const plan_options& o, int stage) {
  auto table = detail::table_of(schedule, o);
  memory_requirements needs = detail::requirements_beside_skips(table, o, stage);
  for (int s = 0; s < stage; ++s) detail::raise(needs.stash.skip, detail::stash_count(table, o, s, stage));
  for (int s = stage + 1; s < o.stages; ++s)
    detail::raise(needs.returned.skip, detail::returned_count(table, o, s, stage));
  return needs;
}

/// The same of a stage of a cut, without slots for values that skip a stage if there are none.
template <scheduler Schedule>
GPIPE_COLD constexpr memory_requirements requirements_of(const Schedule& schedule, const plan_options& o,
                                                         const stage_view& stage) {
  if (stage.skipped()) return requirements_of(schedule, o, stage.stage());
  auto table = detail::table_of(schedule, o);
  return detail::requirements_beside_skips(table, o, stage.stage());
}

// change: automatic recompute; how much a stage can keep
/// As needed: the most working sets with which a stage fits, from the fewest to one per micro-batch in flight;
/// `fits(requirements)` is called with different numbers of them. If none fits, the fewest.
template <class Fits>
constexpr int max_working_sets(memory_requirements needs, const Fits& fits) {
  int low = needs.kept_copies, high = needs.in_flight;
  const auto holds = [&](int working_sets) {
    needs.kept_copies = working_sets;
    return fits(needs);
  };
  if (low < high && holds(high)) low = high;
  for (--high; low < high;) {
    const int middle = high - (high - low) / 2;
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

namespace detail {

/// The memory of the layers [first, last) as a stage, for any cut before and after it.
constexpr stage_memory memory_of_range(const network& net, int first, int last,
                                       const memory_requirements& requirements) {
  int ends[4] = {0}, count = 0;
  for (const int end : {first, last, net.layer_count})
    if (end > ends[count]) ends[++count] = end;
  return memory_of(stage_view(net, {ends, count}, first > 0), requirements);
}

}  // namespace detail

constexpr std::int64_t stage_plan::count(const stage_view& stage, const memory_requirements& needs) {
  if (!counted || requirements != needs) memory = memory_of(stage, needs);
  requirements = needs;
  counted = true;
  return memory.total();
}

namespace detail {

/// Counts the bytes of a stage, unless an earlier step has.
GPIPE_COLD constexpr void count_memory(const stage_view& stage, stage_plan& plan) {
  plan.count(stage, plan.requirements);
}

}  // namespace detail

}  // namespace gpipe
