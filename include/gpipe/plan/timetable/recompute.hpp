#pragma once

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe::detail {

// change: a recompute mode
/// A mode and, for `as_needed`, the number of working sets of each stage (null: the fewest with which it runs).
/// `by_layer`: the stages that recompute layers of every micro-batch (null: none does).
struct recompute_choice {
  recompute_mode mode = recompute_mode::never;
  const int* working_sets = nullptr;
  const bool* by_layer = nullptr;

  constexpr recompute_choice() = default;
  constexpr recompute_choice(recompute_mode chosen, const int* stage_working_sets = nullptr,
                             const bool* stages_by_layer = nullptr)
      : mode(chosen), working_sets(stage_working_sets), by_layer(stages_by_layer) {}
};

[[noreturn]] GPIPE_COLD inline void too_few_working_sets(int stage, int working_sets, int fewest) {
  throw_error({"stage ", stage, " cannot run with ", several(working_sets, "working set")},
              {"choose at least ", fewest});
}

// A micro-batch uses a working set in forward, and from backward's input part to its parameter part; if it is not
// recomputed, it keeps the set in between.

/// The working sets of a stage that recomputes every micro-batch: one, and one for each delayed parameter part.
template <scheduler Schedule>
GPIPE_COLD constexpr int fewest_working_sets(const tick_index<Schedule>& table, int stage) {
  int split = 0, fewest = 1;
  table.walk(table.worker_of(stage), [&](int, const cell& c) {
    if (c.stage != stage) return;
    if (c.kind == action_kind::backward_parameters) --split;
    if (split + 1 > fewest) fewest = split + 1;
    if (c.kind == action_kind::backward_input) ++split;
  });
  return fewest;
}

/// Whether a schedule has backward in two parts, in any stage. A schedule with a member `splits` needs no search.
template <scheduler Schedule>
constexpr bool splits_backward(const Schedule& schedule, int stages, int micro_batches) {
  if constexpr (requires { schedule.splits; }) {
    return schedule.splits;
  } else {
    const int workers = schedule.workers(stages), ticks = schedule.ticks(stages, micro_batches);
    for (int w = 0; w < workers; ++w)
      for (int t = 0; t < ticks; ++t)
        if (schedule.at(stages, micro_batches, w, t).kind == action_kind::backward_input) return true;
    return false;
  }
}
template <scheduler Schedule>
constexpr bool splits_backward(const folded<Schedule>& schedule, int stages, int micro_batches) {
  return splits_backward(schedule.unfolded, stages, micro_batches);
}

/// The same for one stage.
template <scheduler Schedule>
constexpr bool splits_backward(const tick_index<Schedule>& table, int stage) {
  const Schedule& schedule = table.schedule();
  if constexpr (requires { schedule.splits; })
    if (!schedule.splits) return false;
  const int S = table.stages(), M = table.micro_batches(), worker = table.worker_of(stage);
  for (int t = 0, ticks = schedule.ticks(S, M); t < ticks; ++t)
    if (const cell c = schedule.at(S, M, worker, t); c.kind == action_kind::backward_input && c.stage == stage)
      return true;
  return false;
}

// change: automatic recompute; which micro-batches
/// Interval scheduling: walks a stage's cells and lets every micro-batch keep its working set until there is one too
/// many; then the one that would be kept longest is recomputed. No choice recomputes fewer (Faigle and Nawijn,
/// "Note on scheduling intervals on-line", 1995).
template <scheduler Schedule>
GPIPE_COLD constexpr void keep_what_fits(tick_index<Schedule>& table, int stage, int working_sets, bool* recomputed) {
  const cell_ticks* ticks = table.of(stage);
  const zeroed_array<int> kept(table.micro_batches());  // between forward and backward
  int kept_count = 0, split = 0;
  table.walk(table.worker_of(stage), [&](int t, const cell& c) {
    if (c.stage != stage || !table.contains(c)) return;
    if (c.kind == action_kind::backward_parameters) --split;
    else if (c.kind != action_kind::forward)
      for (int i = 0; i < kept_count; ++i)
        if (kept[i] == c.micro_batch) kept[i--] = kept[--kept_count];
    while (kept_count > 0 && kept_count + split + 1 > working_sets) {
      int longest = 0;
      for (int i = 1; i < kept_count; ++i)
        if (ticks[kept[i]].backward > ticks[kept[longest]].backward) longest = i;
      recomputed[kept[longest]] = true;
      kept[longest] = kept[--kept_count];
    }
    if (t == ticks[c.micro_batch].forward) kept[kept_count++] = c.micro_batch;
    else if (c.kind == action_kind::backward_input) ++split;
  });
}

/// Flags the micro-batches that a stage recomputes as a whole, and returns their number. `recomputed` has
/// `micro_batches` elements. Throws if the stage cannot run with its working sets.
template <scheduler Schedule>
GPIPE_COLD constexpr int flag_recomputed(detail::tick_index<Schedule>& table, const recompute_choice& choice, int stage,
                                         bool* recomputed) {
  const int M = table.micro_batches();
  const bool trains = table.schedule().trains;
  for (int m = 0; m < M; ++m) recomputed[m] = trains && choice.mode == recompute_mode::always;
  if (trains && (choice.mode == recompute_mode::except_last || choice.mode == recompute_mode::as_needed)) {
    const int fewest = detail::fewest_working_sets(table, stage);
    const bool limited = choice.mode == recompute_mode::as_needed && choice.working_sets;
    const int working_sets = limited ? choice.working_sets[stage] : fewest;
    if (working_sets < fewest) detail::too_few_working_sets(stage, working_sets, fewest);
    detail::keep_what_fits(table, stage, working_sets, recomputed);
  }
  int count = 0;
  for (int m = 0; m < M; ++m) count += recomputed[m];
  return count;
}

/// Flags the micro-batches before whose backward a stage recomputes anything.
template <scheduler Schedule>
GPIPE_COLD constexpr void flag_recomputing(detail::tick_index<Schedule>& table, const recompute_choice& choice,
                                           int stage, bool* recomputing) {
  flag_recomputed(table, choice, stage, recomputing);
  const bool recomputes_layers = table.schedule().trains && choice.by_layer != nullptr && choice.by_layer[stage];
  for (int m = 0; recomputes_layers && m < table.micro_batches(); ++m) recomputing[m] = true;
}

/// `flag_recomputed` for a schedule without a tick index.
template <scheduler Schedule>
constexpr int flag_recomputed(const Schedule& schedule, int stages, int micro_batches, const recompute_choice& choice,
                              int stage, bool* recomputed) {
  detail::require_admitted(schedule, stages, micro_batches);
  detail::tick_index<Schedule> table(schedule, stages, micro_batches);
  return flag_recomputed(table, choice, stage, recomputed);
}

}  // namespace gpipe::detail
