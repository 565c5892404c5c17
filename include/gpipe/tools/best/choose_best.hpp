#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/choose_warmup.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/tools/best/memory_estimate.hpp>
#include <gpipe/tools/best/plan_candidate.hpp>
#include <gpipe/tools/best/plan_space.hpp>
#include <gpipe/tools/best/update_time.hpp>

// A search for the best plan that a compiler can do. Its steps are small enough for one constant evaluation each under
// the compilers' default limits:
//
//     measure_stages  -->  rank_plans, of each number of replicas  -->  simulate, the plans in their order  --> improve

namespace gpipe {

namespace detail {

/// The most stages of a plan, and stages x micro-batches.
inline constexpr int max_chosen_stages = 16, max_chosen_cells = 256;
/// The same if memory is limited, because its bytes are counted, too.
inline constexpr int max_limited_stages = 8, max_limited_cells = 128;

}  // namespace detail

/// The plan that `choose_best` has found. Times are in picoseconds.
struct best_choice {
  plan_candidate winner;    ///< its step is `unlimited` if no plan fits
  std::int64_t update = 0;  ///< of its step
  std::int64_t min = 0;     ///< no plan of the space has a shorter step
  int first[detail::max_chosen_stages + 1]{};

  constexpr bool fits() const { return winner.step != detail::unlimited; }
};

namespace detail {

/// The options of all plans of a search: as in `find_best`, the limit is that of each device, and transfers and
/// parameters have a cost.
constexpr plan_options options_of_search(plan_options rest) {
  rest.cost_transfers = rest.cost_parameters = true;
  rest.warmup = warmup_kind::shortest;
  if (rest.memory_limit < rest.device.memory_limit) rest.device.memory_limit = rest.memory_limit;
  rest.memory_limit = no_memory_limit;
  return rest;
}

/// The longest stage of the best cut into S stages, over all layers, in 1024ths.
struct stage_shares {
  int of[max_chosen_stages + 1]{};
};
GPIPE_COLD constexpr stage_shares measure_stages(const network& net, const plan_space& space, plan_options o) {
  o.micro_batch_size = space.batch / (2 * space.devices) + 1;
  const zeroed_array<layer_cost> each(cost_count(net, o));
  const stage_costs costs = fill_costs(net, o, each.data());
  std::int64_t all = 0;
  for (int l = 0; l < net.layer_count; ++l) {
    const pass_cost c = pass_cost_of(costs.of(0)[l], false);
    all = summed(all, summed(c.forward, c.backward));
  }
  const int per_worker = space.max_chunks > 2 ? space.max_chunks : 2;
  stage_shares found;
  for (int S = 1; S <= max_chosen_stages && S <= net.layer_count && S <= space.devices * per_worker; ++S) {
    const std::int64_t longest =
        least_bottleneck(net.layer_count, S, 1, [&](int, int l) { return pass_cost_of(costs.of(0)[l], false); });
    found.of[S] =
        all == 0 ? 1024 / S : static_cast<int>(static_cast<double>(longest) / static_cast<double>(all) * 1024);
  }
  return found;
}

/// The most promising plans, by their estimated steps.
struct ranked_plans {
  static constexpr int most = 16, most_alike = 2, most_near = 8, most_cells = 3072;
  struct entry {
    plan_candidate it;
    std::int64_t estimate = unlimited;
  };
  entry of[most]{};
  int count = 0, plans = 0;
  std::int64_t min = unlimited;  ///< no plan has a shorter step
  plan_candidate smallest{};     ///< the plan with the most workers and, of these, the smallest micro-batches

  constexpr void add(const plan_candidate& it, std::int64_t estimate) {
    int same = 0, at = count < most ? count : most - 1;  // the entry that leaves
    for (int i = 0; i < count && same < most_alike; ++i)
      if (of[i].it.schedule == it.schedule && of[i].it.replicas == it.replicas && ++same == most_alike) at = i;
    if (at < count && estimate >= of[at].estimate) return;
    if (at == count) ++count;
    for (; at > 0 && of[at - 1].estimate > estimate; --at) of[at] = of[at - 1];
    of[at] = {it, estimate};
  }
  constexpr void add(const ranked_plans& others) {
    for (int i = 0; i < others.count; ++i) add(others.of[i].it, others.of[i].estimate);
    if (others.plans > 0) offer_smallest(others.smallest);
    plans += others.plans;
    if (others.min < min) min = others.min;
  }
  constexpr void offer_smallest(const plan_candidate& it) {
    const bool smaller = it.workers != smallest.workers ? it.workers > smallest.workers
                                                        : it.micro_batch_size < smallest.micro_batch_size;
    if (smallest.bound == 0 || smaller) smallest = it;
  }
  /// Leaves at most `limit` plans, which are not among `others`, and as many as a search simulates.
  constexpr void shorten(int limit, const ranked_plans& others) {
    int cells = 0, left = 0;
    for (int i = 0; i < count && left < limit && cells <= most_cells; ++i) {
      if (others.has(of[i].it)) continue;
      cells += of[i].it.stages * of[i].it.micro_batches;
      of[left++] = of[i];
    }
    count = left;
  }
  constexpr bool has(const plan_candidate& it) const {
    for (int i = 0; i < count; ++i)
      if (const plan_candidate& p = of[i].it;
          p.schedule == it.schedule && p.replicas == it.replicas && p.stages == it.stages && p.workers == it.workers &&
          p.micro_batches == it.micro_batches && p.micro_batch_size == it.micro_batch_size)
        return true;
    return false;
  }
};

/// The time of a step without the work of a worker: how long its schedule fills and drains, about.
constexpr std::int64_t fill_time(const plan_candidate& it, const stage_times& stage) {
  const std::int64_t f = stage.forward, b = stage.backward_input, p = stage.backward_parameters;
  const auto positive = [](std::int64_t time) { return time > 0 ? time : 0; };
  std::int64_t each = f + b + p;
  switch (it.schedule) {
    case schedule_kind::zb_h1:
    case schedule_kind::interleaved_zb:
      each = positive(f + b - p);
      break;
    case schedule_kind::zb_2p:
    case schedule_kind::zb_v:
    case schedule_kind::dual_pipe_v:
      each = positive(f + b - 2 * p);
      break;
    case schedule_kind::v_half:
      each = f + b;
      break;
    case schedule_kind::v_min:
      each = f + 2 * b;
      break;
    default:
      break;
  }
  return (it.workers - 1) * each;
}

/// About the step of a plan: the work of a worker and what fills and drains, or the path of the first micro-batch and
/// what follows it, if these are few. `all`: the times of a micro-batch on one worker, for all layers.
constexpr std::int64_t estimate_step(const plan_candidate& it, const stage_times& all, const stage_shares& shares) {
  const auto part = [](const stage_times& of, int share) {
    const auto scaled = [share](std::int64_t time) { return time / 1024 * share; };
    return stage_times{scaled(of.forward), scaled(of.backward_input), scaled(of.backward_parameters)};
  };
  const auto sum = [](const stage_times& of) { return of.forward + of.backward_input + of.backward_parameters; };
  const std::int64_t M = it.micro_batches, K = it.workers;
  const stage_times worker = part(all, shares.of[it.workers]), stage = part(all, shares.of[it.stages]);
  const std::int64_t filled = M * sum(worker) + fill_time(it, stage);
  const bool splits = schedule_choice(it.schedule, it.chunks).splits;
  const std::int64_t through = all.forward + all.backward_input + (splits ? 0 : all.backward_parameters);
  const std::int64_t before = it.schedule == schedule_kind::fill_drain               ? M
                              : it.stages > K || it.schedule == schedule_kind::zb_2p ? 2 * K
                                                                                     : K;
  const std::int64_t waits = through + (M - 1) * (worker.backward_input + worker.backward_parameters) +
                             (splits ? worker.backward_parameters : 0) +
                             (M > before ? (M - before) * worker.forward : 0);
  if (it.stages > K) return filled > through ? filled : through;
  return filled > waits ? filled : waits;
}

/// About how many micro-batches are in flight, of all layers.
constexpr int estimated_copies(const plan_candidate& it) {
  const int K = it.workers, M = it.micro_batches;
  int copies = K;
  switch (it.schedule) {
    case schedule_kind::fill_drain:
    case schedule_kind::looped_bfs:
      return M;
    case schedule_kind::zb_2p:
      copies = 2 * K - 1;
      break;
    case schedule_kind::one_f_one_b:
    case schedule_kind::v_half:
      copies = (K + 1) / 2;
      break;
    case schedule_kind::v_min:
      copies = K / 3 + 1;
      break;
    default:
      break;
  }
  return copies < M ? copies : M;
}

/// Whether a schedule simulates its own table, which takes some times as long as a formula.
constexpr bool computes_table(schedule_kind kind) {
  return kind == schedule_kind::interleaved_zb || kind == schedule_kind::dual_pipe_v || kind == schedule_kind::zb_v ||
         kind == schedule_kind::v_half || kind == schedule_kind::v_min;
}

/// Ranks the plans of a space with `replicas` replicas.
GPIPE_COLD constexpr ranked_plans rank_plans(const network& net, plan_space space, const plan_options& o,
                                             const stage_shares& shares, int replicas) {
  const memory_estimate memory(net);
  const bool limited = o.limits_memory();
  const int max_cells = limited ? max_limited_cells : max_chosen_cells;
  ranked_plans found;
  space.min_micro_batch_size = least_micro_batch_size(net, space);
  const int samples = space.batch / replicas + (space.batch % replicas != 0);
  const int least = space.min_micro_batch_size < space.batch ? space.min_micro_batch_size : space.batch;
  if (space.replicas == 0 && space.micro_batches == 0 && space.micro_batch_size == 0 && samples < least) return found;
  space.replicas = replicas;
  int sizes = 0;
  each_split(
      samples, space, [&](int, int) { ++sizes; }, max_cells);
  const zeroed_array<int> size(sizes);
  const zeroed_array<stage_times> all(sizes);  // of all layers
  const zeroed_array<layer_cost> each(cost_count(net, o));
  plan_options sized = o;
  int at = 0;
  const auto measure = [&](int, int B) {
    sized.micro_batch_size = size[at] = B;
    all[at++] = times_of(fill_costs(net, sized, each.data()).of(0), 0, net.layer_count, true);
  };
  each_split(samples, space, measure, max_cells);
  at = 0;
  each_candidate(
      space, o, net.layer_count,
      [&](plan_candidate it) {
        if (it.stages > (limited ? max_limited_stages : max_chosen_stages)) return;
        if (it.schedule == schedule_kind::interleaved_zb && !space.schedule) return;
        if (computes_table(it.schedule) && 3 * it.stages * it.micro_batches > max_cells) return;
        while (size[at] != it.micro_batch_size) at = at + 1 < sizes ? at + 1 : 0;
        const stage_times& t = all[at];
        const std::int64_t work = t.forward + t.backward_input + t.backward_parameters;
        const plan_options with = it.in(o);
        const std::int64_t update = update_time(share_of(memory.parameter_bytes(), it.workers), with, o.device);
        it.bound = summed(share_of(multiplied(work, it.micro_batches), it.workers), update);
        ++found.plans;
        if (it.bound < found.min) found.min = it.bound;
        found.offer_smallest(it);
        std::int64_t estimate = summed(estimate_step(it, t, shares), update);
        if (found.count == ranked_plans::most && estimate >= found.of[found.count - 1].estimate) return;
        if (limited) {
          if (memory.needed_over_had(with, 1) > 1) return;
          if (memory.needed_over_had(with, estimated_copies(it)) > 1)
            estimate += it.micro_batches * (t.forward / it.workers);
        }
        found.add(it, estimate);
      },
      max_cells);
  return found;
}

/// The most promising of those plans that have as many workers and replicas as the best, and were not ranked before.
GPIPE_COLD constexpr ranked_plans rank_near(const network& net, plan_space space, const plan_options& o,
                                            const stage_shares& shares, const best_choice& best,
                                            const ranked_plans& before) {
  space.workers = best.winner.workers;
  ranked_plans found = rank_plans(net, space, o, shares, best.winner.replicas);
  found.shorten(ranked_plans::most_near, before);
  return found;
}

/// The simulated step of a cut, in picoseconds; negative: it breaks the memory limit.
GPIPE_COLD constexpr std::int64_t chosen_step(const network& net, const plan_options& o, const stage_costs& costs,
                                              const int* first) {
  if (o.limits_memory() || !o.recompute_layers.empty()) return step_of_cut(net, o, costs, first);
  const cut made{first, o.stages};  // nothing runs again, so no memory is counted
  const schedule_choice schedule = o.chosen_schedule();
  int count = 0;
  find_links(net, made, [&count](const stage_link&) { ++count; });
  const zeroed_array<stage_link> links(count);
  find_links(net, made, [&links, at = 0](const stage_link& it) mutable { links[at++] = it; });
  return makespan_of(net, o, schedule, costs, made, links.data(), count,
                     [&](int s) { return schedule.in_flight(o.stages, o.micro_batches, s); });
}

/// Takes a cut of a plan if its step is the shortest that is known.
GPIPE_COLD constexpr void take_cut_of(const network& net, const plan_candidate& it, const plan_options& o,
                                      const stage_costs& costs, const int* first, best_choice& best) {
  const std::int64_t makespan = chosen_step(net, o, costs, first);
  if (makespan < 0) return;
  const std::int64_t update = update_time(net, o, first), step = summed(makespan, update);
  if (step >= best.winner.step) return;
  best.winner = it;
  best.winner.step = step;
  best.update = update;
  for (int s = 0; s <= o.stages; ++s) best.first[s] = first[s];
}

/// A cut of a plan, if the plan may be better than the best.
struct tried_cut {
  bool tries = false;
  int first[max_chosen_stages + 1]{};
};
/// The best cut without limits, or, as long as no plan fits, one whose stages have about the same bytes.
GPIPE_COLD constexpr tried_cut cut_to_try(const network& net, const plan_candidate& it, const plan_options& rest,
                                          const best_choice& best, bool evenly) {
  if (it.bound >= best.winner.step || (evenly && best.fits())) return {};
  const plan_options o = it.in(rest);
  const zeroed_array<int> first(o.stages);
  if (evenly) {
    memory_estimate(net).cut_evenly(o, first.data());
  } else {
    const zeroed_array<layer_cost> each(cost_count(net, o));
    search_cut(net, o, o.chosen_schedule(), fill_costs(net, o, each.data()), first.data(), no_memory_limit);
  }
  tried_cut found{true, {}};
  for (int s = 0; s <= o.stages; ++s) found.first[s] = first[s];
  return found;
}
/// Simulates a plan with this cut, and returns the better of it and `best`.
GPIPE_COLD constexpr best_choice simulate_plan(const network& net, const plan_candidate& it, const plan_options& rest,
                                               best_choice best, const tried_cut& tried) {
  if (!tried.tries) return best;
  const plan_options o = it.in(rest);
  const zeroed_array<layer_cost> each(cost_count(net, o));
  const stage_costs costs = fill_costs(net, o, each.data());
  const zeroed_array<int> first(o.stages);
  for (int s = 0; s <= o.stages; ++s) first[s] = tried.first[s];
  take_cut_of(net, it, o, costs, first.data(), best);
  return best;
}

/// A search that moves one boundary of the best cut at a time by one layer.
struct cut_moves {
  best_choice best;
  int next = 0;    ///< of all moves: boundary 1 + next / 2, back or on
  int failed = 0;  ///< moves since the last that made the step shorter

  /// Tries further moves, as many as a constant evaluation can.
  GPIPE_COLD constexpr cut_moves further(const network& net, const plan_options& rest) const {
    cut_moves now = *this;
    const plan_candidate it = best.winner;
    const plan_options o = it.in(rest);
    const zeroed_array<layer_cost> each(cost_count(net, o));
    const stage_costs costs = fill_costs(net, o, each.data());
    const int moves = 2 * (o.stages - 1), cells = o.stages * o.micro_batches;
    for (int left = o.limits_memory() ? cells : max_chosen_cells; now.failed < moves && left >= cells;) {
      int* const first = now.best.first;
      const int s = 1 + now.next / 2, by = now.next % 2 == 0 ? -1 : 1;
      best_choice other = now.best;
      other.first[s] += by;
      if (other.first[s] > first[s - 1] && other.first[s] < first[s + 1]) {
        left -= cells;
        const zeroed_array<int> moved(o.stages);
        for (int i = 0; i <= o.stages; ++i) moved[i] = other.first[i];
        const std::int64_t before = now.best.winner.step;
        take_cut_of(net, it, o, costs, moved.data(), now.best);
        if (now.best.winner.step < before) {
          now.failed = 0;
          continue;
        }
      }
      ++now.failed;
      now.next = (now.next + 1) % moves;
    }
    return now;
  }
};
inline constexpr int rounds_of_moves = 6;

/// The bytes of a device that suffice for the smallest plan.
GPIPE_COLD constexpr std::int64_t sufficient_bytes(const network& net, const plan_candidate& it,
                                                   const plan_options& rest) {
  const plan_options o = it.in(rest);
  const zeroed_array<layer_cost> each(cost_count(net, o));
  const stage_costs costs = fill_costs(net, o, each.data());
  const zeroed_array<int> first(o.stages);
  memory_estimate(net).cut_evenly(o, first.data());
  const zeroed_array<memory_requirements> needs(o.stages);
  for (int s = 0; s < o.stages; ++s) needs[s] = requirements_of(o.chosen_schedule(), o, s);
  recompute_search recompute(net, o, costs, needs.data());
  std::int64_t most = 0;
  for (int s = 0; s < o.stages; ++s)
    if (const std::int64_t bytes = recompute.least_bytes(first.data(), s) * o.stages_beside(s); bytes > most)
      most = bytes;
  return most;
}

}  // namespace detail

/// Chooses as `find_best` does, but simulates only some plans: those whose steps are estimated to be the shortest, and
/// then others with as many workers as the best of these. They have at most 16 stages and 256 stages x micro-batches,
/// half of both if memory is limited, and a third of the latter for a V. Devices are equal.
/// `plan<net, best<...>>` is this choice, made by the compiler.
GPIPE_COLD constexpr best_choice choose_best(const network& net, const plan_space& space,
                                             const plan_options& rest = {}) {
  const plan_options o = detail::options_of_search(rest);
  const detail::stage_shares shares = detail::measure_stages(net, space, o);
  best_choice best;
  const auto simulate = [&](const plan_candidate& it, bool evenly) {
    best = detail::simulate_plan(net, it, o, best, detail::cut_to_try(net, it, o, best, evenly));
  };
  const auto simulate_all = [&](const detail::ranked_plans& ranked) {
    for (int i = 0; i < ranked.count; ++i) {
      simulate(ranked.of[i].it, false);
      if (o.limits_memory()) simulate(ranked.of[i].it, true);
    }
  };
  detail::ranked_plans ranked{}, none{};
  for (int R = 1; R <= space.devices && R <= space.batch; ++R)
    if (space.replicas == 0 || space.replicas == R) ranked.add(detail::rank_plans(net, space, o, shares, R));
  ranked.shorten(ranked.most, none);
  simulate_all(ranked);
  if (!best.fits() && ranked.plans > 0) simulate(ranked.smallest, true);
  best.min = ranked.min;
  if (!best.fits()) return best;
  simulate_all(detail::rank_near(net, space, o, shares, best, ranked));
  detail::cut_moves moves{best};
  for (int i = 0; i < detail::rounds_of_moves; ++i) moves = moves.further(net, o);
  return moves.best;
}

}  // namespace gpipe
