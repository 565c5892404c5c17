#pragma once

#include <gpipe/plan/memory.hpp>
#include <gpipe/plan/options.hpp>
#include <gpipe/plan/recompute.hpp>

namespace gpipe {

namespace detail {

/// The fewest working sets with which a stage runs: one, and one for each parameter part that the schedule puts off.
template <scheduler Schedule>
constexpr int least_kept(const Schedule& schedule, const plan_options& o, int stage) {
  if (!splits_backward(schedule, o.stages, o.micro_batches)) return 1;
  return fewest_working_sets(rows<Schedule>(schedule, o.stages, o.micro_batches), stage);
}

}  // namespace detail

/// What the memory of a stage depends on beside its slots: the schedule's micro-batches in flight, and how many sets of
/// what backward reads again it keeps. As needed: the fewest; see `with_room`.
template <scheduler Schedule>
constexpr memory_terms terms_of(const Schedule& schedule, const plan_options& o, int stage) {
  const int in_flight = schedule.in_flight(o.stages, o.micro_batches, stage);
  const int least = detail::least_kept(schedule, o, stage);
  const int kept = o.recompute == recompute_mode::never && in_flight > least ? in_flight : least;
  const bool split = detail::splits_backward(schedule, o.stages, o.micro_batches);
  return {o.micro_batches, o.micro_batch_size, in_flight, kept, o.moments, split};
}

/// As needed: the same with as many sets as the limit has room for, at most one for each micro-batch in flight.
constexpr memory_terms with_room(memory_terms terms, const plan_options& o, const stage_view& stage) {
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
constexpr stage_memory memory_alone(const network& net, int first, int last, const memory_terms& terms) {
  int ends[4] = {0}, count = 0;
  for (const int at : {first, last, net.slot_count})
    if (at > ends[count]) ends[++count] = at;
  return memory_of(stage_view(net, {ends, count}, first > 0), terms);
}

}  // namespace gpipe
