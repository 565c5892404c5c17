#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/partition/problem.hpp>

namespace gpipe {

namespace detail {

// Not constexpr: see problem.hpp.
[[noreturn]] inline void bad_cut(int stage, int begin, int end) {
  refuse({"a stage holds the slots [", begin, ", ", end, ")"}, {"cuts ascend strictly from 0 to the number of slots"},
         place{.stage = stage});
}
[[noreturn]] inline void bad_cut_length(int places, int stages) {
  refuse({"the cut names ", several(places, "place"), ", not ", stages - 1, ", for ", several(stages, "stage")},
         {"name the first slot of every stage but the first"});
}
[[noreturn]] inline void stage_misfits(int stage, int begin, int end) {
  refuse({"the slots [", begin, ", ", end, ") do not fit the memory of the stage"},
         {"give it fewer slots, or leave the cut to the partition"}, place{.stage = stage});
}

}  // namespace detail

/// Throws unless stage s can hold the slots [first[s], first[s + 1]): they ascend strictly from 0 to `slots`, and each
/// range fits (`fits(begin, end)`, or `fits(stage, begin, end)` where the limits of stages differ).
template <class Fits = fits_always>
constexpr void require_cut(const int* first, int slots, int stages, const Fits& fits = {}) {
  for (int s = 0; s < stages; ++s) {
    const int begin = first[s], end = first[s + 1];
    if (end <= begin || (s == 0 && begin != 0) || end > slots || (s == stages - 1 && end != slots))
      detail::bad_cut(s, begin, end);
    if (!detail::stage_fits(fits, s, begin, end)) detail::stage_misfits(s, begin, end);
  }
}

/// A cut of the user's own, `between`: the first slot of every stage but the first. Checks it and writes its
/// stages + 1 places.
template <class Fits = fits_always>
constexpr void take_cut(const int* between, int places, int slots, int stages, int* first, const Fits& fits = {}) {
  if (places != stages - 1) detail::bad_cut_length(places, stages);
  first[0] = 0;
  for (int s = 1; s < stages; ++s) first[s] = between[s - 1];
  first[stages] = slots;
  require_cut(first, slots, stages, fits);
}

/// The objective of a cut. Throws where a count, the cut or a cost is not valid or 64 bits do not suffice.
constexpr std::int64_t objective_of(const partition_problem& p, const int* first) {
  detail::require_problem(p);
  require_cut(first, p.slots, p.stages);
  const auto add = [&p](std::int64_t a, std::int64_t b) { return detail::added(a, b, p.slots, p.micro_batches); };
  std::int64_t sum = 0, forward = 0, backward = 0, bottleneck = 0;
  const detail::scratch<std::int64_t> moved(p.stages);
  if (p.transfer_count > 0) {
    const detail::scratch<int> stage_of(p.slots);
    for (int s = 0; s < p.stages; ++s)
      for (int l = first[s]; l < first[s + 1]; ++l) stage_of[l] = s;
    for (int i = 0; i < p.transfer_count; ++i) {
      const transfer& t = p.transfers[i];
      const int from = stage_of[t.writer];
      if (stage_of[t.last_reader()] > from) moved[from] = add(moved[from], t.charge());
      for (int r = 0, before = from; r < t.reader_count; before = stage_of[t.reader(r++)]) {
        const int to = stage_of[t.reader(r)];
        if (to > before) moved[to] = add(moved[to], t.charge());
      }
    }
  }
  for (int s = 0; s < p.stages; ++s) {
    const slot_cost* costs = p.costs_on(s);
    slot_cost held{};
    for (int l = first[s]; l < first[s + 1]; ++l) {
      if (costs[l].forward < 0 || costs[l].backward < 0) detail::bad_cost(l, costs[l]);
      held.forward = add(held.forward, costs[l].forward);
      held.backward = add(held.backward, costs[l].backward);
    }
    const std::int64_t both = add(held.forward, held.backward), total = add(both, moved[s]);
    sum = add(sum, both);
    if (held.forward > forward) forward = held.forward;
    if (held.backward > backward) backward = held.backward;
    if (total > bottleneck) bottleneck = total;
  }
  if (p.goal == objective::bottleneck) return bottleneck;
  const std::int64_t beat = add(forward, backward), beats = p.micro_batches - 1;
  if (beats > 0 && beat > detail::unlimited / beats) detail::cost_overflow(p.slots, p.micro_batches);
  return add(sum, beats * beat);
}

/// Time of a fill-drain step with equal micro-batches, equal devices and free transfers,
///
///     sum f + sum b + (M - 1) (max f + max b),
///
/// over stages s that hold the slots [first[s], first[s + 1]). The two maxima may sit on different stages.
constexpr std::int64_t fill_drain_makespan(const slot_cost* costs, int slots, const int* first, int stages,
                                           int micro_batches) {
  return objective_of({slots, stages, micro_batches, costs}, first);
}

}  // namespace gpipe
