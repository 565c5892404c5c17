#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/plan_steps.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/tools/best/estimates.hpp>
#include <gpipe/tools/best/plan_space.hpp>

// A search for the best plan that runs in the compiler. Each step is small enough for one constant evaluation under the
// compilers' default limits:
//
//     measure_stages  -->  rank_plans, per number of replicas  -->  simulate, the plans in their order  -->  improve

namespace gpipe {

namespace detail {

/// The most stages of a plan, and stages x micro-batches.
inline constexpr int max_chosen_stages = 16, max_chosen_cells = 256;
/// The same if memory is limited, because its bytes are counted, too.
inline constexpr int max_limited_stages = 8, max_limited_cells = 128;

}  // namespace detail

/// The plan that `choose_best` found. Times are in picoseconds.
struct best_choice {
  plan_candidate winner;    ///< its step is `unlimited` if no plan fits
  std::int64_t update = 0;  ///< part of its step
  std::int64_t min = 0;     ///< no plan of the space has a shorter step
  int first[detail::max_chosen_stages + 1]{};

  constexpr bool fits() const { return winner.step != detail::unlimited; }
};

namespace detail {

/// The options of all plans of a search: as in `find_best`, the memory limit is per device, and transfers and
/// parameters have a cost.
constexpr plan_options options_of_search(plan_options options) {
  options.cost_transfers = options.cost_parameters = true;
  options.warmup = warmup_kind::shortest;
  if (options.memory_limit < options.device.memory_limit) options.device.memory_limit = options.memory_limit;
  options.memory_limit = no_memory_limit;
  return options;
}

/// The longest stage of the best cut into S stages, over all layers, in 1024ths.
struct stage_shares {
  int longest[max_chosen_stages + 1]{};
};
GPIPE_COLD constexpr stage_shares measure_stages(const network& net, const plan_space& space, plan_options options) {
  options.micro_batch_size = space.batch / (2 * space.devices) + 1;
  const zeroed_array<layer_cost> layer_costs(cost_count(net, options));
  const stage_costs costs = fill_costs(net, options, layer_costs.data());
  std::int64_t total = 0;
  for (int l = 0; l < net.layer_count; ++l) {
    const pass_cost c = pass_cost_of(costs.of(0)[l], false);
    total = summed(total, summed(c.forward, c.backward));
  }
  const int per_worker = space.max_chunks > 2 ? space.max_chunks : 2;
  stage_shares found;
  for (int S = 1; S <= max_chosen_stages && S <= net.layer_count && S <= space.devices * per_worker; ++S) {
    const std::int64_t longest =
        least_bottleneck(net.layer_count, S, 1, [&](int, int l) { return pass_cost_of(costs.of(0)[l], false); });
    found.longest[S] =
        total == 0 ? 1024 / S : static_cast<int>(static_cast<double>(longest) / static_cast<double>(total) * 1024);
  }
  return found;
}

/// The most promising plans, by their estimated steps.
struct ranked_plans {
  static constexpr int most = 16, most_alike = 2, most_near = 8, most_cells = 3072;
  struct entry {
    plan_candidate candidate;
    std::int64_t estimate = unlimited;
  };
  entry entries[most]{};
  int count = 0, plans = 0;
  std::int64_t min = unlimited;  ///< no plan has a shorter step
  plan_candidate smallest{};     ///< the plan with the most workers and, among these, the smallest micro-batches

  constexpr void add(const plan_candidate& candidate, std::int64_t estimate) {
    int similar = 0, position = count < most ? count : most - 1;  // the entry that leaves
    for (int i = 0; i < count && similar < most_alike; ++i)
      if (entries[i].candidate.schedule == candidate.schedule && entries[i].candidate.replicas == candidate.replicas &&
          ++similar == most_alike)
        position = i;
    if (position < count && estimate >= entries[position].estimate) return;
    if (position == count) ++count;
    for (; position > 0 && entries[position - 1].estimate > estimate; --position)
      entries[position] = entries[position - 1];
    entries[position] = {candidate, estimate};
  }
  constexpr void add(const ranked_plans& ranking) {
    for (int i = 0; i < ranking.count; ++i) add(ranking.entries[i].candidate, ranking.entries[i].estimate);
    if (ranking.plans > 0) offer_smallest(ranking.smallest);
    plans += ranking.plans;
    if (ranking.min < min) min = ranking.min;
  }
  constexpr void offer_smallest(const plan_candidate& candidate) {
    const bool smaller = candidate.workers != smallest.workers ? candidate.workers > smallest.workers
                                                               : candidate.micro_batch_size < smallest.micro_batch_size;
    if (smallest.bound == 0 || smaller) smallest = candidate;
  }
  /// Keeps at most `limit` plans, none of them in `excluded`, and no more than a search simulates.
  constexpr void shorten(int limit, const ranked_plans& excluded) {
    int cells = 0, left = 0;
    for (int i = 0; i < count && left < limit && cells <= most_cells; ++i) {
      if (excluded.has(entries[i].candidate)) continue;
      cells += entries[i].candidate.stages * entries[i].candidate.micro_batches;
      entries[left++] = entries[i];
    }
    count = left;
  }
  constexpr bool has(const plan_candidate& candidate) const {
    for (int i = 0; i < count; ++i)
      if (const plan_candidate& ranked = entries[i].candidate;
          ranked.schedule == candidate.schedule && ranked.replicas == candidate.replicas &&
          ranked.stages == candidate.stages && ranked.workers == candidate.workers &&
          ranked.micro_batches == candidate.micro_batches && ranked.micro_batch_size == candidate.micro_batch_size)
        return true;
    return false;
  }
};

/// About how long the schedule of a plan fills and drains: its step without a worker's work.
constexpr std::int64_t fill_time(const plan_candidate& plan, const searched_kind& kind, const stage_times& stage) {
  const std::int64_t per_worker =
      stage.forward + kind.input * stage.backward_input + kind.parameters * stage.backward_parameters;
  return per_worker > 0 ? (plan.workers - 1) * per_worker : 0;
}

/// Estimates the step of a plan: a worker's work and the time to fill and drain, or, with few micro-batches, the path
/// of the first one and the work after it. `total`: the times of a micro-batch on one worker, for all layers.
constexpr std::int64_t estimate_step(const plan_candidate& plan, const searched_kind& kind, const stage_times& total,
                                     const stage_shares& shares) {
  const auto part = [](const stage_times& times, int share) {
    const auto scaled = [share](std::int64_t time) { return time / 1024 * share; };
    return stage_times{scaled(times.forward), scaled(times.backward_input), scaled(times.backward_parameters)};
  };
  const auto sum = [](const stage_times& times) {
    return times.forward + times.backward_input + times.backward_parameters;
  };
  const std::int64_t M = plan.micro_batches, K = plan.workers;
  const stage_times worker = part(total, shares.longest[plan.workers]),
                    stage = part(total, shares.longest[plan.stages]);
  const std::int64_t filled = M * sum(worker) + fill_time(plan, kind, stage);
  const bool splits = schedule_choice(plan.schedule, plan.chunks).splits;
  const std::int64_t through = total.forward + total.backward_input + (splits ? 0 : total.backward_parameters);
  const std::int64_t in_flight = kind.lead == 0 ? M : kind.lead * K;
  const std::int64_t path = through + (M - 1) * (worker.backward_input + worker.backward_parameters) +
                            (splits ? worker.backward_parameters : 0) +
                            (M > in_flight ? (M - in_flight) * worker.forward : 0);
  if (plan.stages > K) return filled > through ? filled : through;
  return filled > path ? filled : path;
}

/// Ranks the plans of a space with `replicas` replicas.
GPIPE_COLD constexpr ranked_plans rank_plans(const network& net, plan_space space, const plan_options& options,
                                             const stage_shares& shares, int replicas) {
  const memory_estimate memory(net);
  const bool limited = options.limits_memory();
  const int max_cells = limited ? max_limited_cells : max_chosen_cells;
  ranked_plans found;
  space.min_micro_batch_size = least_micro_batch_size(net, space);
  const int samples = space.batch / replicas + (space.batch % replicas != 0);
  const int least = space.min_micro_batch_size < space.batch ? space.min_micro_batch_size : space.batch;
  if (space.replicas == 0 && space.micro_batches == 0 && space.micro_batch_size == 0 && samples < least) return found;
  space.replicas = replicas;
  int splits = 0;
  each_split(
      samples, space, [&](int, int) { ++splits; }, max_cells);
  const zeroed_array<int> sizes_of_splits(splits);
  const zeroed_array<stage_times> times(splits);  // of all layers
  const zeroed_array<layer_cost> layer_costs(cost_count(net, options));
  plan_options sized = options;
  int split = 0;
  const auto measure = [&](int, int B) {
    sized.micro_batch_size = sizes_of_splits[split] = B;
    times[split++] = times_of(fill_costs(net, sized, layer_costs.data()).of(0), 0, net.layer_count, true);
  };
  each_split(samples, space, measure, max_cells);
  split = 0;
  each_candidate(
      space, options, net.layer_count,
      [&](plan_candidate candidate) {
        if (candidate.stages > (limited ? max_limited_stages : max_chosen_stages)) return;
        const searched_kind& kind = *find_searched(candidate.schedule);
        if (!kind.ranked && !space.schedule) return;
        if (kind.makes_table && 3 * candidate.stages * candidate.micro_batches > max_cells) return;
        while (sizes_of_splits[split] != candidate.micro_batch_size) split = split + 1 < splits ? split + 1 : 0;
        const stage_times& total = times[split];
        const std::int64_t work = total.forward + total.backward_input + total.backward_parameters;
        const plan_options chosen_options = candidate.in(options);
        const std::int64_t update =
            update_time(share_of(memory.parameter_bytes(), candidate.workers), chosen_options, options.device);
        candidate.bound = summed(share_of(multiplied(work, candidate.micro_batches), candidate.workers), update);
        ++found.plans;
        if (candidate.bound < found.min) found.min = candidate.bound;
        found.offer_smallest(candidate);
        std::int64_t estimate = summed(estimate_step(candidate, kind, total, shares), update);
        if (found.count == ranked_plans::most && estimate >= found.entries[found.count - 1].estimate) return;
        if (limited) {
          if (memory.needed_over_had(chosen_options, 1) > 1) return;
          const int copies = kind.copies(candidate.workers, candidate.micro_batches);
          if (memory.needed_over_had(chosen_options,
                                     copies < candidate.micro_batches ? copies : candidate.micro_batches) > 1)
            estimate += candidate.micro_batches * (total.forward / candidate.workers);
        }
        found.add(candidate, estimate);
      },
      max_cells);
  return found;
}

/// The most promising plans with as many workers and replicas as the best that are not yet ranked.
GPIPE_COLD constexpr ranked_plans rank_near(const network& net, plan_space space, const plan_options& options,
                                            const stage_shares& shares, const best_choice& best,
                                            const ranked_plans& ranked) {
  space.workers = best.winner.workers;
  ranked_plans found = rank_plans(net, space, options, shares, best.winner.replicas);
  found.shorten(ranked_plans::most_near, ranked);
  return found;
}

/// The simulated step of a cut, in picoseconds; negative: it breaks the memory limit.
GPIPE_COLD constexpr std::int64_t chosen_step(const network& net, const plan_options& options, const stage_costs& costs,
                                              const int* first) {
  if (options.limits_memory() || !options.recompute_layers.empty()) return step_of_cut(net, options, costs, first);
  const cut made{first, options.stages};  // nothing runs again, so no memory is counted
  const schedule_choice schedule = options.chosen_schedule();
  return makespan_of(net, options, schedule, costs, made,
                     [&](int s) { return schedule.in_flight(options.stages, options.micro_batches, s); });
}

/// Takes a cut of a plan if its step is the shortest so far.
GPIPE_COLD constexpr void take_cut_of(const network& net, const plan_candidate& candidate, const plan_options& options,
                                      const stage_costs& costs, const int* first, best_choice& best) {
  const std::int64_t makespan = chosen_step(net, options, costs, first);
  if (makespan < 0) return;
  const std::int64_t update = update_time(net, options, first), step = summed(makespan, update);
  if (step >= best.winner.step) return;
  best.winner = candidate;
  best.winner.step = step;
  best.update = update;
  for (int s = 0; s <= options.stages; ++s) best.first[s] = first[s];
}

/// A cut of a plan, if the plan may be better than the best.
struct tried_cut {
  bool tries = false;
  int first[max_chosen_stages + 1]{};
};
/// The best cut without limits, or, as long as no plan fits, one whose stages have about the same bytes.
GPIPE_COLD constexpr tried_cut cut_to_try(const network& net, const plan_candidate& candidate,
                                          const plan_options& common, const best_choice& best, bool evenly) {
  if (candidate.bound >= best.winner.step || (evenly && best.fits())) return {};
  const plan_options options = candidate.in(common);
  const zeroed_array<int> first(options.stages);
  if (evenly) {
    memory_estimate(net).cut_evenly(options, first.data());
  } else {
    const zeroed_array<layer_cost> layer_costs(cost_count(net, options));
    search_cut(net, options, options.chosen_schedule(), fill_costs(net, options, layer_costs.data()), first.data(),
               no_memory_limit);
  }
  tried_cut found{true, {}};
  for (int s = 0; s <= options.stages; ++s) found.first[s] = first[s];
  return found;
}
/// Simulates a plan with this cut, and returns the better of it and `best`.
GPIPE_COLD constexpr best_choice simulate_plan(const network& net, const plan_candidate& candidate,
                                               const plan_options& common, best_choice best, const tried_cut& tried) {
  if (!tried.tries) return best;
  const plan_options options = candidate.in(common);
  const zeroed_array<layer_cost> layer_costs(cost_count(net, options));
  const stage_costs costs = fill_costs(net, options, layer_costs.data());
  const zeroed_array<int> first(options.stages);
  for (int s = 0; s <= options.stages; ++s) first[s] = tried.first[s];
  take_cut_of(net, candidate, options, costs, first.data(), best);
  return best;
}

/// A search that moves one boundary of the best cut at a time by one layer.
struct cut_moves {
  best_choice best;
  int next = 0;    ///< index of the next move: boundary 1 + next / 2, back or forward
  int failed = 0;  ///< moves since the last one that made the step shorter

  /// Tries more moves, as many as fit into a constant evaluation.
  GPIPE_COLD constexpr cut_moves further(const network& net, const plan_options& common) const {
    cut_moves result = *this;
    const plan_candidate candidate = best.winner;
    const plan_options options = candidate.in(common);
    const zeroed_array<layer_cost> layer_costs(cost_count(net, options));
    const stage_costs costs = fill_costs(net, options, layer_costs.data());
    const int moves = 2 * (options.stages - 1), cells = options.stages * options.micro_batches;
    for (int left = options.limits_memory() ? cells : max_chosen_cells; result.failed < moves && left >= cells;) {
      int* const first = result.best.first;
      const int s = 1 + result.next / 2, shift = result.next % 2 == 0 ? -1 : 1;
      best_choice neighbour = result.best;
      neighbour.first[s] += shift;
      if (neighbour.first[s] > first[s - 1] && neighbour.first[s] < first[s + 1]) {
        left -= cells;
        const zeroed_array<int> moved(options.stages);
        for (int i = 0; i <= options.stages; ++i) moved[i] = neighbour.first[i];
        const std::int64_t step_before = result.best.winner.step;
        take_cut_of(net, candidate, options, costs, moved.data(), result.best);
        if (result.best.winner.step < step_before) {
          result.failed = 0;
          continue;
        }
      }
      ++result.failed;
      result.next = (result.next + 1) % moves;
    }
    return result;
  }
};
inline constexpr int rounds_of_moves = 6;

/// The bytes of a device that suffice for the smallest plan.
GPIPE_COLD constexpr std::int64_t sufficient_bytes(const network& net, const plan_candidate& candidate,
                                                   const plan_options& common) {
  const plan_options options = candidate.in(common);
  const zeroed_array<layer_cost> layer_costs(cost_count(net, options));
  const stage_costs costs = fill_costs(net, options, layer_costs.data());
  const zeroed_array<int> first(options.stages);
  memory_estimate(net).cut_evenly(options, first.data());
  const zeroed_array<memory_requirements> needs(options.stages);
  for (int s = 0; s < options.stages; ++s) needs[s] = requirements_of(options.chosen_schedule(), options, s);
  recompute_search recompute(net, options, costs, needs.data());
  std::int64_t most = 0;
  for (int s = 0; s < options.stages; ++s)
    if (const std::int64_t bytes = recompute.least_bytes(first.data(), s) * options.stages_beside(s); bytes > most)
      most = bytes;
  return most;
}

}  // namespace detail

/// Chooses as `find_best` does, but simulates only some plans: those with the shortest estimated steps, and then others
/// with as many workers as the best of these. They have at most 16 stages and 256 stages x micro-batches, half of both
/// if memory is limited, and a third of the latter for a V. Devices are equal.
/// `plan<net, best<...>>` makes this choice in the compiler.
GPIPE_COLD constexpr best_choice choose_best(const network& net, const plan_space& space,
                                             const plan_options& options = {}) {
  const plan_options common = detail::options_of_search(options);
  const detail::stage_shares shares = detail::measure_stages(net, space, common);
  best_choice best;
  const auto simulate = [&](const plan_candidate& candidate, bool evenly) {
    best =
        detail::simulate_plan(net, candidate, common, best, detail::cut_to_try(net, candidate, common, best, evenly));
  };
  const auto simulate_all = [&](const detail::ranked_plans& ranked) {
    for (int i = 0; i < ranked.count; ++i) {
      simulate(ranked.entries[i].candidate, false);
      if (common.limits_memory()) simulate(ranked.entries[i].candidate, true);
    }
  };
  detail::ranked_plans ranked{}, none{};
  for (int R = 1; R <= space.devices && R <= space.batch; ++R)
    if (space.replicas == 0 || space.replicas == R) ranked.add(detail::rank_plans(net, space, common, shares, R));
  ranked.shorten(ranked.most, none);
  simulate_all(ranked);
  if (!best.fits() && ranked.plans > 0) simulate(ranked.smallest, true);
  best.min = ranked.min;
  if (!best.fits()) return best;
  simulate_all(detail::rank_near(net, space, common, shares, best, ranked));
  detail::cut_moves moves{best};
  for (int i = 0; i < detail::rounds_of_moves; ++i) moves = moves.further(net, common);
  return moves.best;
}

}  // namespace gpipe
