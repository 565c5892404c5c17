#pragma once

#include <cstdint>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cut/memory_limited_cut.hpp>
#include <gpipe/plan/cut/probed_cut.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe {

namespace detail {

/// Every value that one layer writes and others read, and its transfer time over the device's link.
class value_transfers {
 public:
  constexpr value_transfers(const network& net, const plan_options& o)
      : list_(net.value_count), readers_(net.read_count) {
    for (int v = 0, next = 0; v < net.value_count; ++v) {
      const value& value = net.values[v];
      if (value.writer < 0 || value.readers == 0) continue;
      list_[count_++] = {value.writer, readers_.data() + next, value.readers,
                         transfer_time(bytes_sent(value.part, o.micro_batch_size), o.device), value.gradient};
      for (int i = 0; i < value.readers; ++i) readers_[next++] = net.reader(v, i);
    }
  }
  constexpr const transfer* data() const { return list_.data(); }
  constexpr int count() const { return count_; }

 private:
  zeroed_array<transfer> list_;
  zeroed_array<int> readers_;
  int count_ = 0;
};

/// Whether the objective is the step of every cut: fill-drain or forward only, free transfers, and links between all
/// neighbours.
constexpr bool objective_is_step(const network& net, const plan_options& o) {
  const schedule_choice schedule = o.chosen_schedule();
  return drains(schedule, o.stages) && !o.cost_transfers &&
         (o.stages == 1 || chained_from(net).begin(schedule.trains) <= 1);
}

// change: a recompute mode
/// The cost of a layer in a partition problem: backward in one part, with the second forward if it is certain.
template <scheduler Schedule>
constexpr pass_cost cost_in(const Schedule& schedule, const plan_options& o, const layer_cost& c) {
  const bool recomputes =
      o.recompute_whole() == recompute_mode::always || o.recompute_whole() == recompute_mode::except_last;
  return schedule.trains ? pass_cost_of(c, recomputes) : pass_cost{c.forward, 0};
}

/// The time of a stage of a cut for one micro-batch, forward and backward.
template <scheduler Schedule>
constexpr std::int64_t time_in(const Schedule& schedule, const plan_options& o, const stage_costs& costs,
                               const cut& cut, int stage) {
  std::int64_t sum = 0;
  for (int l = cut.first[stage]; l < cut.first[stage + 1]; ++l) {
    const pass_cost cost = cost_in(schedule, o, costs.of(stage)[l]);
    sum += cost.forward + cost.backward;
  }
  return sum;
}

/// Solves a model's partition problem: `use(problem)`, whose arrays live as long as the call.
template <scheduler Schedule, class Use>
constexpr auto with_problem(const network& net, const plan_options& o, const Schedule& schedule,
                            const stage_costs& costs, Use&& use) {
  const int kinds = costs.kinds(o.stages);
  const zeroed_array<pass_cost> of_layers(kinds * net.layer_count);
  const zeroed_array<int> kind_of(o.stages);
  for (int k = 0; k < kinds; ++k)
    for (int l = 0; l < net.layer_count; ++l) of_layers[k * net.layer_count + l] = cost_in(schedule, o, costs.of(k)[l]);
  for (int s = 0; s < o.stages; ++s) kind_of[s] = kinds > 1 ? s : 0;
  partition_problem problem{net.layer_count, o.stages, o.micro_batches, of_layers.data(), kinds, kind_of.data()};
  problem.recomputes_first = o.recompute_whole() == recompute_mode::always;
  if (!o.cost_transfers) {
    if (!drains(schedule, o.stages)) problem.goal = objective::bottleneck;
    return use(problem);
  }
  const value_transfers transfers(net, o);
  problem.goal = objective::bottleneck;
  problem.transfers = transfers.data();
  problem.transfer_count = transfers.count();
  return use(problem);
}

/// The memory limit of each stage, with `more` bytes added.
struct stage_limits : zeroed_array<std::int64_t> {
  constexpr stage_limits(const plan_options& o, std::int64_t more) : zeroed_array(o.stages) {
    for (int s = 0; s < o.stages; ++s) {
      const std::int64_t limit = o.limit_of(s);
      (*this)[s] = limit < no_memory_limit - more ? limit + more : no_memory_limit;
    }
  }
};

/// Whether a stage's memory obeys its limit, for any cut before and after it.
struct memory_fits {
  enum class outside : std::uint8_t {
    ignored,  ///< as if there were no limits
    whole,    ///< all layers after it are one stage, so each value gets one gradient back: the least memory
    apart,    ///< every layer outside is a stage and sends its gradient: the most memory
  };
  const network& net;
  const std::int64_t* limits;        ///< [stage]
  const memory_requirements* needs;  ///< [stage]
  outside layers_outside = outside::ignored;

  constexpr bool operator()(int s, int begin, int end) const {
    return layers_outside == outside::ignored || bytes(s, begin, end) <= limits[s];
  }
  constexpr std::int64_t bytes(int s, int begin, int end) const {
    return layers_outside == outside::whole ? memory_of_range(net, begin, end, needs[s]).total()
                                            : memory_of(stage_view(net, begin, end), needs[s]).total();
  }
  /// Whether both stages need the same memory for the same layers, under the same limit. Nothing skips a stage if all
  /// layers after it are one stage, and all before it are one.
  constexpr bool same(int s, int t) const {
    memory_requirements a = needs[s];
    const memory_requirements& b = needs[t];
    if (layers_outside == outside::whole) a.stash.skip = b.stash.skip, a.returned.skip = b.returned.skip;
    return a == b && limits[s] == limits[t];
  }
};

/// `try_partition` with one type of limits for all calls here, so that it is compiled once.
constexpr bool cut_within(const partition_problem& p, int* first, const memory_fits& fits) {
  if (fits.layers_outside == memory_fits::outside::ignored && p.kinds == 1 && p.transfer_count == 0)
    return try_partition(p, first, fits_always{});
  require_problem(p);
  return partition_unequal(p, first, fits);
}

inline constexpr int max_layers_searched = 64;

/// Whether the time of a stage depends on its recomputes under its limit.
template <scheduler Schedule>
constexpr bool decides_recompute(const plan_options& o, const Schedule& schedule) {
  return schedule.trains && (!o.recompute_layers.empty() || o.recompute_whole() == recompute_mode::as_needed);
}
/// Whether a cut under a limit is probed, and not searched: the model has many layers, and the recomputes of the stages
/// are decided, too.
constexpr bool is_probed(const network& net, const plan_options& o) {
  return net.layer_count > max_layers_searched && decides_recompute(o, o.chosen_schedule());
}

}  // namespace detail

/// The result of a search for the best cut.
struct cut_search {
  bool fits = true;   ///< a cut that obeys the memory limit
  bool whole = true;  ///< the search came to its end; else it stopped after 32,768 partial cuts, or the cut was probed
  /// No cut that obeys the limit has a smaller objective. (0 in constant evaluation without a limit: it takes steps.)
  std::int64_t min = 0;
};

// change: the cut search
/// Cuts a model by the objective of its partition problem: the step of fill-drain and forward only with free transfers,
/// else the bottleneck. Every stage obeys its memory limit, with `more` bytes added. If no cut does, `first` is the
/// best one without limits.
///
/// If that one breaks the limit, or recomputes more because of it, the result is still exactly the best that obeys it,
/// as long as 32,768 partial cuts suffice to find it: with 60 layers and 8 stages they mostly do. If not, a range of
/// layers counts as fitting if its parts fit, and the gradients that return to it are taken at their minimum or
/// maximum. Then the cut obeys the limit, but it may not be the best that does, or none may be found. The same is true
/// with more than 64 layers if recomputes are decided: then the cut is probed (see `probed_cut`).
template <scheduler Schedule>
GPIPE_COLD constexpr cut_search search_cut(const network& net, const plan_options& o, const Schedule& schedule,
                                           const stage_costs& costs, int* first, std::int64_t more = 0) {
  detail::require_admitted(schedule, o.stages, o.micro_batches);
  return detail::with_problem(net, o, schedule, costs, [&](const partition_problem& problem) {
    const bool limited = o.limits_memory() && more != no_memory_limit;
    const bool decides = detail::decides_recompute(o, schedule) && (limited || !o.recompute_layers.empty());
    const detail::zeroed_array<memory_requirements> needs(o.stages);
    const detail::zeroed_array<memory_requirements> least(o.stages);  // with the fewest packed weights
    for (int s = 0; (limited || decides) && s < o.stages; ++s) {
      least[s] = needs[s] = requirements_of(schedule, o, s);
      least[s].packed = detail::fewest_packed(o, needs[s], s);
    }
    const detail::stage_limits limits(o, more);
    using detail::memory_fits;
    memory_fits fits{net, limits.data(), least.data()};
    detail::cut_within(problem, first, fits);
    cut_search found;
    if (limited || decides || !std::is_constant_evaluated()) found.min = detail::objective_of(problem, first);
    if (!limited && !decides) return found;

    const auto obeys = [&](const int* cut) {
      for (int s = 0; s < o.stages; ++s)
        if (memory_of(stage_view(net, {cut, o.stages}, s), least[s]).total() > limits[s]) return false;
      return true;
    };
    if (!decides && obeys(first)) return found;
    using detail::memory_limited_cut;
    detail::recompute_search recompute(net, o, costs, needs.data());
    memory_limited_cut search(problem, net, least.data(), limits.data(), memory_limited_cut::goal::objective,
                              decides ? &recompute : nullptr);
    std::int64_t reached = decides ? search.objective_within(first) : detail::unlimited;
    if (reached == found.min) return found;
    const detail::zeroed_array<int> alternative(o.stages);
    const auto take_if_better = [&](std::int64_t value) {
      if (value >= reached) return;
      reached = value;
      for (int s = 0; s <= o.stages; ++s) first[s] = alternative[s];
    };
    if (decides && detail::is_probed(net, o)) {
      found.whole = false;
      if (detail::probed_cut(problem, limits.data(), recompute).find(alternative.data()))
        take_if_better(search.objective_within(alternative.data()));
    } else {
      const detail::answer exact = search.find(alternative.data());
      if (exact == detail::answer::found) take_if_better(search.bound());
      found.whole = exact != detail::answer::unknown;
      if (exact != detail::answer::none) found.min = search.bound();
      if (!found.whole)
        for (const auto outside : {memory_fits::outside::whole, memory_fits::outside::apart}) {
          fits.layers_outside = outside;
          if ((decides || reached == detail::unlimited) && detail::cut_within(problem, alternative.data(), fits))
            take_if_better(search.objective_within(alternative.data()));
        }
    }
    found.fits = reached != detail::unlimited;
    return found;
  });
}

/// As `search_cut`; returns whether a cut fits.
template <scheduler Schedule>
GPIPE_COLD constexpr bool choose_cut(const network& net, const plan_options& o, const Schedule& schedule,
                                     const stage_costs& costs, int* first) {
  return search_cut(net, o, schedule, costs, first).fits;
}

/// In the cut that exceeds the memory limits by the fewest bytes, the stage that exceeds its limit by most.
struct memory_shortage {
  int stage = 0;
  /// With these bytes more for every stage `choose_cut` finds a cut; with one byte fewer it does not, unless it probes.
  std::int64_t bytes = 0;
};

/// Call it if no cut obeys the options' limits. `needed`, unless null, becomes the bytes of each stage of that cut.
template <scheduler Schedule>
GPIPE_COLD constexpr memory_shortage find_shortage(const network& net, const plan_options& o, const Schedule& schedule,
                                                   const stage_costs& costs, std::int64_t* needed = nullptr) {
  using detail::memory_limited_cut;
  const detail::zeroed_array<int> first(o.stages);
  const detail::zeroed_array<memory_requirements> needs(o.stages);
  for (int s = 0; s < o.stages; ++s) needs[s] = requirements_of(schedule, o, s);
  const detail::stage_limits limits(o, 0);
  detail::recompute_search recompute(net, o, costs, needs.data());
  const auto above = [&](int s) { return recompute.least_bytes(first.data(), s) - limits[s]; };
  const bool probes = detail::is_probed(net, o);
  const auto fits = [&](std::int64_t more) {
    if (!probes || more == no_memory_limit) return search_cut(net, o, schedule, costs, first.data(), more).fits;
    return detail::with_problem(net, o, schedule, costs, [&](const partition_problem& problem) {
      const detail::stage_limits with_more(o, more);
      return detail::probed_cut(problem, with_more.data(), recompute).fit(first.data());
    });
  };
  std::int64_t low = 0, high = probes ? 0 : detail::with_problem(net, o, schedule, costs, [&](const auto&problem) {
                          memory_limited_cut search(problem, net, needs.data(), limits.data(),
                                                    memory_limited_cut::goal::bytes, &recompute);
                          return search.find(first.data()) == detail::answer::found ? search.bytes() : 0;
                        });
  if (high == 0 || !fits(high)) {
    fits(no_memory_limit);
    for (int s = 0; s < o.stages; ++s)
      if (above(s) > high) high = above(s);
    while (high - low > (probes ? 1 + high / 64 : 1)) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    fits(high);
  }
  memory_shortage found{0, high};
  for (int s = 1; s < o.stages; ++s)
    if (above(s) > above(found.stage)) found.stage = s;
  for (int s = 0; needed != nullptr && s < o.stages; ++s) needed[s] = above(s) + limits[s];
  return found;
}

/// The smallest memory limit for which `choose_cut` finds a cut, in bytes, if devices have no limit. Call it if no cut
/// obeys the options' limit.
template <scheduler Schedule>
constexpr std::int64_t min_memory_limit(const network& net, const plan_options& o, const Schedule& schedule,
                                        const stage_costs& costs) {
  return o.memory_limit + find_shortage(net, o, schedule, costs).bytes;
}

namespace detail {

/// The distance of a cut from the best one without a memory limit.
template <scheduler Schedule>
constexpr distance distance_of(const network& net, const plan_options& o, const Schedule& schedule,
                               const stage_costs& costs, const int* first) {
  return detail::with_problem(net, o, schedule, costs,
                              [&](const partition_problem& problem) { return distance_from_optimum(problem, first); });
}

}  // namespace detail

}  // namespace gpipe
