#pragma once

#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>

namespace gpipe {

namespace detail {

/// Before it is known how many parameter parts come together (0) each comes alone.
template <scheduler Schedule>
constexpr tick_index<Schedule> table_of(const Schedule& schedule, const plan_options& o) {
  const int together = o.coalesce < o.micro_batches ? o.coalesce : o.micro_batches;
  return {schedule, o.stages, o.micro_batches, together > 1 ? together : 1};
}

// A schedule may tell by itself how many places it takes from one stage to another; else its rows are read.

template <scheduler Schedule>
constexpr int stash_count(tick_index<Schedule>& table, const plan_options& o, int from, int to) {
  const Schedule& schedule = table.schedule();
  if constexpr (requires { schedule.stash_slots(1, 1, 0, 1, 0); })
    if (const int told = schedule.stash_slots(o.stages, o.micro_batches, from, to, on_the_way(o.cost_transfers)); told >= 0)
      return told;
  return stash_slots(table, from, to, nullptr, on_the_way(o.cost_transfers));
}

template <scheduler Schedule>
constexpr int returned_count(tick_index<Schedule>& table, const plan_options& o, int from, int to) {
  const Schedule& schedule = table.schedule();
  const int late = on_the_way(o.cost_transfers), together = table.coalesce();
  int told = -1;
  if (!schedule.trains) return 0;
  if constexpr (requires { schedule.returned_slots(1, 1, 0, 1, 0, 1); })
    told = schedule.returned_slots(o.stages, o.micro_batches, from, to, late, together);
  else if constexpr (requires { schedule.returned_slots(1, 1, 0, 1, 0); })
    told = together == 1 ? schedule.returned_slots(o.stages, o.micro_batches, from, to, late) : -1;
  return told >= 0 ? told : returned_slots(table, from, to, nullptr, late);
}

/// Two places, so that one is written while the other leaves.
template <scheduler Schedule>
constexpr outgoing_slots slots_to_leave(tick_index<Schedule>& table, const plan_options& o, int stage) {
  if (!o.separate_memory) return {};
  const int places = o.micro_batches < 2 ? 1 : 2;
  const auto leaves_for = [&](int other) {
    return other >= 0 && other < o.stages && table.worker_of(other) != table.worker_of(stage);
  };
  return {leaves_for(stage + 1) ? places : 0, leaves_for(stage - 1) ? places : 0, places};
}

constexpr void raise(int& most, int count) {
  if (count > most) most = count;
}

template <scheduler Schedule>
constexpr memory_requirements requirements_beside_skips(tick_index<Schedule>& table, const plan_options& o, int stage) {
  const Schedule& schedule = table.schedule();
  memory_requirements terms{o.all_micro_batches(), o.micro_batch_size,
                     schedule.in_flight(o.stages, o.micro_batches, stage), 1,
                     schedule.trains ? o.optimizer_moments : 0};
  terms.trains = schedule.trains;
  terms.split = splits_backward(table, stage);
  if (terms.split) terms.kept_copies = terms.held = fewest_working_sets(table, stage);
  if (table.coalesce() > 1) {
    terms.split = true;
    terms.held = table.coalesce();
  }
  if (o.recompute == recompute_mode::never) raise(terms.kept_copies, terms.in_flight);
  terms.stash = {stage > 0 ? stash_count(table, o, stage - 1, stage) : 0, 0};
  terms.outgoing = slots_to_leave(table, o, stage);
  terms.others = o.separate_memory && terms.trains ? o.replicas - 1 : 0;
  terms.returned = {stage + 1 < o.stages ? returned_count(table, o, stage + 1, stage) : 0, 0};
  return terms;
}

}  // namespace detail

/// What the memory of a stage depends on beside its slots, whatever the cuts before and behind it: the schedule's
/// micro-batches in flight, and how many sets of what backward reads again it keeps. As needed: the fewest; see
/// `with_working_sets`. What skips a stage, either way, has as many places as that from the stage with the most.
template <scheduler Schedule>
GPIPE_COLD constexpr memory_requirements requirements_of(const Schedule& schedule, const plan_options& o, int stage) {
  auto table = detail::table_of(schedule, o);
  memory_requirements terms = detail::requirements_beside_skips(table, o, stage);
  for (int s = 0; s < stage; ++s) detail::raise(terms.stash.skip, detail::stash_count(table, o, s, stage));
  for (int s = stage + 1; s < o.stages; ++s)
    detail::raise(terms.returned.skip, detail::returned_count(table, o, s, stage));
  return terms;
}

/// The same of a stage of a cut, without what it does not ask for.
template <scheduler Schedule>
GPIPE_COLD constexpr memory_requirements requirements_of(const Schedule& schedule, const plan_options& o, const stage_view& stage) {
  if (stage.skipped()) return requirements_of(schedule, o, stage.stage());
  auto table = detail::table_of(schedule, o);
  return detail::requirements_beside_skips(table, o, stage.stage());
}

/// As needed: the same with as many sets as the limit has room for, at most one for each micro-batch in flight.
constexpr memory_requirements with_working_sets(memory_requirements terms, const plan_options& o, const stage_view& stage) {
  if (o.recompute != recompute_mode::as_needed) return terms;
  for (int low = terms.kept_copies, high = terms.in_flight; low < high;) {
    terms.kept_copies = high - (high - low) / 2;
    if (memory_of(stage, terms).total() <= o.memory_limit) low = terms.kept_copies;
    else high = terms.kept_copies - 1;
    terms.kept_copies = low;
  }
  return terms;
}

/// The memory of the slots [first, last) as a stage, whatever the cuts before and behind it.
constexpr stage_memory memory_of_range(const network& net, int first, int last, const memory_requirements& terms) {
  int ends[4] = {0}, count = 0;
  for (const int at : {first, last, net.slot_count})
    if (at > ends[count]) ends[++count] = at;
  return memory_of(stage_view(net, {ends, count}, first > 0), terms);
}

}  // namespace gpipe
