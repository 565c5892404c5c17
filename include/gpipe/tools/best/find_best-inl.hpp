#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/complete_plan.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/probed_cut.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/partition/objective.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/plan_steps.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/best/estimates.hpp>
#include <gpipe/tools/best/find_best.hpp>
#include <gpipe/tools/best/memory_bound.hpp>
#include <gpipe/tools/best/path_bound.hpp>
#include <gpipe/tools/search/searched_plan.hpp>

namespace gpipe {

namespace detail {

/// A best-first search in two passes. Each plan has a lower bound of its step. The plan with the smallest bound comes
/// next; a plan whose bound reaches the best known step leaves the search.
///
///     first    bound by work  -->  bound of its schedule  -->  step of the cut without limits
///     second   step of its best cut: first the plans with the shortest step, or where that cut does not fit, bound
///
/// The third number is a step if the stages fit with their recompute. The last one takes the most time. Before it, and
/// at the end for the plans with the smallest bounds, paths give a better bound.
class best_search {
 public:
  best_search(const network& net, const plan_space& space, const plan_options& options, double effort)
      : net_(net),
        space_(space),
        common_(options),
        memory_(net),
        effort_(effort > 0 && effort <= max_effort ? static_cast<std::int64_t>(effort * cells_per_second) : 0),
        left_(effort_) {
    require_space(space, options, net.layer_count);
    require_precision(net, options);
    require_layers(net, options.recompute_layers);
    if (!(effort > 0 && effort <= max_effort))
      throw_error({"the effort of a search is not a number above 0"}, {"choose 1 for about a second"});
    common_.cost_transfers = common_.cost_parameters = true;
    limit_ = options.memory_limit;
    device_limit_ = options.device.memory_limit;
    common_.device.memory_limit = (std::min)(common_.device.memory_limit, limit_);
    common_.memory_limit = no_memory_limit;
    common_.device_count = 0;
    if (options.device_count == 0) common_.devices = nullptr;
    limited_ = options.limits_memory();
    chained_ = chained_from(net).begin(true) <= 1;
    space_.min_micro_batch_size = least_micro_batch_size(net, space_);
    for (const plan_candidate& candidate : candidates_in(space_, options, net.layer_count))
      states_.push_back({candidate, progress::work});
  }

  best_plan find() {
    if (states_.empty())
      throw_error({"the space has no plan: what it fixes holds fewer than ", several(space_.batch, "sample"),
                   ", or needs more stages than the model's ", several(net_.layer_count, "layer")},
                  {"fix fewer choices"});
    require_valid(options_of(states_.front().candidate), net_.layer_count);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      states_[i].candidate.bound = bound_by_work(states_[i].candidate);
      queue_.push({states_[i].candidate.bound, i});
    }
    if (limited_) simulate_small();
    for (const waits_for level : {waits_for::room, waits_for::recompute, waits_for::nothing}) {
      take_all(level);
      for (; !later_.empty(); later_.pop()) queue_.push(later_.top());
    }
    search_cuts();
    certify();
    return result();
  }

 private:
  /// How far the search for a plan has come.
  enum class progress : std::uint8_t { work, schedule, simulated, searched };
  struct plan_state {
    plan_candidate candidate;
    progress reached;
    bool refused = false;  ///< it seems too large
    bool fits = true;      ///< false: no cut fits
    warmup_kind warmup = warmup_kind::automatic;
    int rounds = 0;           ///< of its bound by paths
    std::int64_t update = 0;  ///< of `it.step`
    std::vector<int> cut{};   ///< of `it.step`: the first layers of all stages but the first
  };

  /// Plans that seem to fit as they are come first, then those that seem to fit with recompute, then all.
  enum class waits_for : std::uint8_t { room, recompute, nothing };

  /// Starts with the plans that need the least memory: the smallest micro-batches of some schedules for each number of
  /// replicas and workers. Under a tight limit few others fit.
  void simulate_small() {
    std::map<std::tuple<int, int, schedule_kind>, std::size_t> smallest;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const plan_candidate& candidate = states_[i].candidate;
      const auto [position, is_first] =
          smallest.insert({{candidate.replicas, candidate.workers, candidate.schedule}, i});
      if (!is_first && candidate.micro_batch_size < states_[position->second].candidate.micro_batch_size)
        position->second = i;
    }
    for (const auto& [key, i] : smallest) {
      if (!space_.schedule && !find_searched(std::get<2>(key))->needs_little) continue;
      if (left_ < effort_ / 2) return;
      while (states_[i].reached != progress::simulated) advance(i);
    }
  }

  /// Whether the search continues beyond its effort because no plan is known: with limits, twice as long.
  bool has_no_plan(waits_for level) const {
    return best_ < 0 && level == waits_for::nothing && (!limited_ || left_ > -effort_);
  }
  /// The first pass over the plans of a level.
  void take_all(waits_for level) {
    const std::int64_t left = level == waits_for::nothing ? effort_ / 4 : effort_ / 2;
    while (!queue_.empty() && queue_.top().first < best_step() && (left_ > left || has_no_plan(level))) {
      const waiting next = queue_.top();
      plan_state& state = states_[next.second];
      queue_.pop();
      if (state.reached == progress::simulated) continue;  // simulate_small did it
      if (limited_ && state.reached == progress::work && memory_.exceeds_in_one_layer(options_of(state.candidate))) {
        advance(next.second);  // its bound still counts
        state.refused = true;
      }
      if (limited_ && state.reached == progress::schedule) {
        if (level != waits_for::nothing && seems_too_large(state.candidate, level)) {
          later_.push(next);
          continue;
        }
        state.refused = resembles_refused(state.candidate);
      }
      if (state.refused) continue;
      advance(next.second);
      if (state.reached != progress::simulated) queue_.push({state.candidate.bound, next.second});
    }
  }

  static constexpr double max_effort = 1e6;
  // A simulated cell takes about 0.3 us.
  static constexpr std::int64_t cells_per_second = 3'000'000;

  std::int64_t best_step() const { return best_ < 0 ? unlimited : states_[index(best_)].candidate.step; }

  /// The options of a plan, with the devices of its stages if devices differ.
  plan_options options_of(const plan_candidate& candidate) {
    plan_options options = candidate.in(common_);
    if (options.schedule == schedule_kind::interleaved && options.warmup == warmup_kind::automatic)
      options.warmup = warmup_kind::shortest;
    if (common_.devices == nullptr) return options;
    std::shared_ptr<std::vector<device_spec>>& devices =
        devices_[{candidate.schedule, candidate.chunks, candidate.workers}];
    if (devices == nullptr) {
      devices = std::make_shared<std::vector<device_spec>>();
      for (int s = 0; s < candidate.stages; ++s) {
        const device_spec& device = common_.devices[options.chosen_schedule().worker_of(candidate.stages, s)];
        devices->push_back(device.with_limit((std::min)(device.memory_limit, limit_)));
      }
    }
    options.devices = devices->data();
    options.device_count = candidate.stages;
    return options;
  }

  /// The costs of a plan's layers, which depend on the size of micro-batches.
  stage_costs costs_of(const plan_candidate& candidate, const plan_options& options) {
    std::vector<layer_cost>& costs = options.device_count > 0 ? unequal_costs_ : costs_[candidate.micro_batch_size];
    if (costs.empty() || options.device_count > 0) {
      costs.resize(static_cast<std::size_t>(cost_count(net_, options)));
      fill_costs(net_, options, costs.data());
    }
    return {costs.data(), net_.layer_count, options.device_count > 0};
  }

  /// The total work over the number of workers, and the update.
  std::int64_t bound_by_work(const plan_candidate& candidate) {
    const plan_options options = options_of(candidate);
    std::int64_t& work = work_[candidate.micro_batch_size];
    if (work == 0) work = least_work(options);
    return summed(share_of(multiplied(work, candidate.micro_batches), candidate.workers),
                  least_update(candidate, options));
  }
  /// The work of a micro-batch if each layer is on its fastest device.
  std::int64_t least_work(plan_options options) const {
    const int kinds = common_.devices == nullptr ? 1 : space_.devices;
    if (common_.devices != nullptr) options.devices = common_.devices, options.device_count = options.stages = kinds;
    std::vector<layer_cost> costs(static_cast<std::size_t>(cost_count(net_, options)));
    const stage_costs kind_costs = fill_costs(net_, options, costs.data());
    std::int64_t total = 0;
    for (int l = 0; l < net_.layer_count; ++l) {
      std::int64_t least = unlimited;
      for (int k = 0; k < kinds; ++k) {
        const pass_cost c = pass_cost_of(kind_costs.of(k)[l], false);
        least = (std::min)(least, summed(c.forward, c.backward));
      }
      total = summed(total, least);
    }
    return total;
  }
  std::int64_t least_update(const plan_candidate& candidate, const plan_options& options) const {
    return common_.devices != nullptr
               ? 0
               : update_time(share_of(memory_.parameter_bytes(), candidate.workers), options, common_.device);
  }

  /// Estimated with all micro-batches in flight or, after the first level, with recompute.
  bool seems_too_large(const plan_candidate& candidate, waits_for level) {
    return needed_over_had(candidate, level) > 1;
  }
  double needed_over_had(const plan_candidate& candidate, waits_for level) {
    const plan_options options = options_of(candidate);
    return memory_.needed_over_had(options, level == waits_for::room ? memory_.copies_in_flight(options) : 1);
  }
  /// Whether a refused plan differs only in smaller micro-batches, with no more of them in flight.
  bool resembles_refused(const plan_candidate& candidate) const {
    const auto alike = [](const plan_candidate& p) { return std::tuple(p.schedule, p.chunks, p.replicas, p.workers); };
    const schedule_choice schedule(candidate.schedule, candidate.chunks);
    return std::any_of(refused_.begin(), refused_.end(), [&](std::size_t i) {
      const plan_candidate& refused = states_[i].candidate;
      if (alike(refused) != alike(candidate) || refused.micro_batch_size > candidate.micro_batch_size) return false;
      for (int s = 0; s < candidate.stages; ++s)
        if (schedule.in_flight(candidate.stages, candidate.micro_batches, s) <
            schedule.in_flight(candidate.stages, refused.micro_batches, s))
          return false;
      return true;
    });
  }

  /// Takes a plan one step further in the first pass.
  void advance(std::size_t i) {
    plan_state& state = states_[i];
    const plan_options options = options_of(state.candidate);
    const stage_costs costs = costs_of(state.candidate, options);
    left_ -= net_.layer_count + std::int64_t{state.candidate.stages} * state.candidate.micro_batches / 4;
    if (state.reached == progress::work) {
      state.reached = progress::schedule;
      const std::int64_t update = least_update(state.candidate, options);
      raise(state, update + least_of_warmups(options, [&](const plan_options& variant) {
                     return lower_bound_of(net_, variant, variant.chosen_schedule(), costs);
                   }));
      if (!limited_ || options.device_count > 0) return;
      const std::int64_t within = least_of_warmups(
          options, [&](const plan_options& variant) { return memory_bound(net_, variant, costs).step(); });
      if (within == unlimited) state.fits = false, state.refused = true;
      else raise(state, within + update);
    } else {
      state.reached = progress::simulated;
      simulate_free_cut(state, options, costs);
      (state.refused ? refused_ : second_pass_).push_back(i);
    }
    if (state.candidate.step < best_step()) best_ = static_cast<int>(i);
  }
  /// Calls `use` for the options of each warm-up that a plan may have. If there are two, `options_of` has the shortest.
  template <class Use>
  void each_warmup(plan_options options, const Use& use) const {
    use(options);
    if (options.schedule != schedule_kind::interleaved || common_.warmup != warmup_kind::automatic) return;
    options.warmup = options.warmup == warmup_kind::longest ? warmup_kind::shortest : warmup_kind::longest;
    use(options);
  }
  template <class Bound>
  std::int64_t least_of_warmups(const plan_options& options, const Bound& bound) const {
    std::int64_t least = unlimited;
    each_warmup(options, [&](const plan_options& variant) { least = (std::min)(least, bound(variant)); });
    return least;
  }
  static void raise(plan_state& state, std::int64_t bound) {
    state.candidate.bound = (std::max)(state.candidate.bound, bound);
  }

  /// The second pass.
  void search_cuts() {
    const auto score = [&](std::size_t i) {
      const plan_candidate& candidate = states_[i].candidate;
      if (candidate.step != unlimited) return static_cast<double>(candidate.step);
      return 1.125 * static_cast<double>(candidate.bound) *
             (std::max)(1.0, needed_over_had(candidate, waits_for::recompute));
    };
    std::stable_sort(second_pass_.begin(), second_pass_.end(), [&](auto i, auto j) { return score(i) < score(j); });
    int searched = 0;
    const std::int64_t layers_squared =
        std::int64_t{net_.layer_count} * net_.layer_count;                  // about the work of a search
    const auto refused = static_cast<std::ptrdiff_t>(second_pass_.size());  // plans that seemed too large may fit
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].refused) second_pass_.push_back(i);
    std::stable_sort(second_pass_.begin() + refused, second_pass_.end(),
                     [&](auto i, auto j) { return score(i) < score(j); });
    for (const std::size_t i : second_pass_) {
      plan_state& state = states_[i];
      if (left_ <= 0 && searched >= (best_ < 0 ? 4 : 1) * least_searched) break;
      if (best_ >= 0 && limited_ && left_ < layers_squared - 4 * effort_) break;  // one search would take too long
      if (state.reached == progress::searched) continue;
      if (state.candidate.bound >= best_step()) continue;
      bound_by_paths(state, least_rounds);
      if (state.candidate.bound >= best_step()) continue;
      const plan_options options = options_of(state.candidate);
      left_ -= net_.layer_count;
      search(state, options, costs_of(state.candidate, options));
      ++searched;
      if (state.candidate.step < best_step()) best_ = static_cast<int>(i);
    }
    if (limited_ && best_ >= 0) shorten(states_[index(best_)]);
  }
  static constexpr int least_searched = 4;  // even if the effort is spent

  static constexpr int least_rounds = 64, most_rounds = 4096;
  static constexpr std::int64_t steps_per_cell = 50;  // of a bound by paths

  /// Raises the bound of a plan by paths through its table. They are bounds if neighbouring stages of any cut have a
  /// link.
  void bound_by_paths(plan_state& state, int rounds) {
    if (state.rounds >= rounds || !chained_) return;
    state.rounds = rounds;
    const plan_options options = options_of(state.candidate);
    const stage_costs costs = costs_of(state.candidate, options);
    const std::int64_t update = least_update(state.candidate, options);
    raise(state, update + least_of_warmups(options, [&](const plan_options& variant) {
                   path_bound paths(variant, costs);
                   left_ -= rounds * (paths.cells() + std::int64_t{options.stages} * net_.layer_count) / steps_per_cell;
                   return paths.step(best_step() - update, rounds);
                 }));
  }
  /// Raises the smallest bounds while that helps, with at most a quarter of the effort.
  void certify() {
    if (best_ < 0) return;
    queue_ = {};
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].fits && states_[i].candidate.bound < best_step()) queue_.push({states_[i].candidate.bound, i});
    for (const std::int64_t left = left_ - effort_ / 4; !queue_.empty() && left_ > left;) {
      const std::size_t i = queue_.top().second;
      plan_state& state = states_[i];
      queue_.pop();
      if (state.rounds >= most_rounds || !chained_) return;
      bound_by_paths(state, (std::max)(least_rounds, 4 * state.rounds));
      if (state.candidate.bound < best_step()) queue_.push({state.candidate.bound, i});
    }
  }

  /// Simulates the best cut without limits. Its step counts if the stages obey the limits with recompute.
  void simulate_free_cut(plan_state& state, const plan_options& options, const stage_costs& costs) {
    const zeroed_array<int> first(options.stages);
    gpipe::search_cut(net_, options, options.chosen_schedule(), costs, first.data(), no_memory_limit);
    const cut_simulator simulator(net_, options, costs);
    const auto is_too_large = [&] {
      take(state, options, simulator.step_of(first.data()), first.data());
      return state.candidate.step == unlimited && options.limits_memory() && simulator.all_exceed(first.data());
    };
    state.refused = is_too_large();
    if (state.candidate.step == unlimited && !state.refused && options.stages > 1) {
      memory_.cut_evenly(options, first.data());
      state.refused = is_too_large();
    }
    left_ -= simulator.work();
  }
  void search(plan_state& state, plan_options options, const stage_costs& costs) {
    state.reached = progress::searched;
    if (cut_simulator(net_, options, costs).affordable_cuts() > 0) return simulate_all(state, options, costs);
    const zeroed_array<int> first(options.stages);
    if (limited_) {
      if (!probe(options, costs, first.data())) return;
    } else {
      options.warmup = common_.warmup;
      options.warmup = choose_warmup(net_, options);
      const cut_search found = gpipe::search_cut(net_, options, options.chosen_schedule(), costs, first.data());
      left_ -= (options.schedule == schedule_kind::interleaved ? 3 : 1) * max_simulated_cells;  // two for its warm-up
      shorten_step(net_, options, costs, found.whole, first.data());
    }
    each_warmup(options, [&](const plan_options& variant) {
      const cut_simulator simulator(net_, variant, costs);
      take(state, variant, simulator.step_of(first.data()), first.data());
      left_ -= simulator.work();
    });
  }
  // change: the cut search; of the best configuration
  /// Writes a cut that obeys the limits, probed as for models of many layers: a search takes many times as long.
  bool probe(const plan_options& options, const stage_costs& costs, int* first) {
    const schedule_choice schedule = options.chosen_schedule();
    const zeroed_array<memory_requirements> needs(options.stages);
    for (int s = 0; s < options.stages; ++s) needs[s] = requirements_of(schedule, options, s);
    const stage_limits limits(options, 0);
    recompute_search recompute(net_, options, costs, needs.data());
    const bool found = with_problem(net_, options, schedule, costs, [&](const partition_problem& problem) {
      return probed_cut(problem, limits.data(), recompute).find(first);
    });
    left_ -= recompute.work();
    return found;
  }
  /// Moves the boundaries of a plan's cut. With a limit this takes as long as several searches.
  void shorten(plan_state& state) {
    plan_options options = options_of(state.candidate);
    options.warmup = state.warmup;
    const stage_costs costs = costs_of(state.candidate, options);
    const cut_simulator simulator(net_, options, costs);
    if (simulator.affordable_cuts() > 0) return;
    const zeroed_array<int> first(options.stages);
    take_cut(state.cut.data(), static_cast<int>(state.cut.size()), net_.layer_count, options.stages, first.data());
    shorten_step(net_, options, costs, false, first.data());
    take(state, options, simulator.step_of(first.data()), first.data());
  }
  /// Simulates all cuts, and raises the bound to the shortest step.
  void simulate_all(plan_state& state, const plan_options& options, const stage_costs& costs) {
    const std::int64_t before = best_step(), update = least_update(state.candidate, options);
    std::int64_t shortest = unlimited;  // or not shorter than the best plan before
    each_warmup(options, [&](const plan_options& variant) {
      const cut_simulator simulator(net_, variant, costs);
      const auto use = [&](const int* first, std::int64_t step) {
        shortest = (std::min)(shortest, take(state, variant, step, first));
      };
      simulator.simulate_all(use, [&] { return before == unlimited ? unlimited : before - update; });
      left_ -= simulator.work();
    });
    state.fits = before != unlimited || shortest != unlimited;
    if (state.fits) raise(state, (std::min)(before, shortest));
  }
  /// Takes a cut with this makespan if its step is shorter. Returns the step, with the update; `unlimited`: it does not
  /// fit.
  std::int64_t take(plan_state& state, const plan_options& options, std::int64_t makespan, const int* first) {
    if (makespan == unlimited) return unlimited;
    const std::int64_t update = update_time(net_, options, first);
    const std::int64_t step = summed(makespan, update);
    if (step >= state.candidate.step) return step;
    state.candidate.step = step;
    state.update = update;
    state.warmup = options.warmup;
    state.cut.assign(first + 1, first + options.stages);
    return step;
  }

  best_plan result() {
    best_plan found;
    found.space = space_;
    found.plans = static_cast<std::int64_t>(states_.size());
    std::vector<const plan_state*> runners_up;
    found.min = best_step();
    for (const plan_state& state : states_) {
      const bool ruled_out = !state.fits || state.candidate.bound >= best_step();
      found.too_large += !state.fits || state.refused;
      found.simulated += state.candidate.step != unlimited;
      found.open += !ruled_out;
      found.unsearched += !ruled_out && state.reached != progress::searched;
      if (!ruled_out) found.min = (std::min)(found.min, state.candidate.bound);
      if (state.candidate.step != unlimited && &state != &states_[index(best_)]) runners_up.push_back(&state);
    }
    if (best_ < 0) throw_too_large(found.plans);
    std::stable_sort(runners_up.begin(), runners_up.end(),
                     [](auto a, auto b) { return a->candidate.step < b->candidate.step; });
    found.winner = states_[index(best_)].candidate;
    for (std::size_t i = 0; i < runners_up.size() && i < 5; ++i) found.next.push_back(runners_up[i]->candidate);
    found.options = options_of(found.winner);
    if (found.winner.stages == found.winner.workers && common_.devices == nullptr) {  // errors name the given option
      found.options.memory_limit = limit_;
      found.options.device.memory_limit = device_limit_;
    }
    found.options.warmup = states_[index(best_)].warmup;
    found.cut = states_[index(best_)].cut;
    found.step = found.winner.step;
    found.update = states_[index(best_)].update;
    if (const auto devices = devices_.find({found.winner.schedule, found.winner.chunks, found.winner.workers});
        devices != devices_.end())
      found.devices = devices->second;
    return found;
  }

  [[noreturn]] void throw_too_large(std::int64_t plans);

  const network& net_;
  plan_space space_;
  plan_options common_;
  const memory_estimate memory_;
  std::int64_t effort_, left_, limit_ = 0, device_limit_ = 0;
  std::vector<plan_state> states_;
  std::vector<std::size_t> second_pass_, refused_;  // plans for the second pass; those that do not fit
  int best_ = -1;
  using waiting = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<waiting, std::vector<waiting>, std::greater<>> queue_, later_;
  bool chained_ = false;  // each layer reads the previous one
  bool limited_ = false;  // any device has a memory limit
  std::map<int, std::vector<layer_cost>> costs_;
  std::vector<layer_cost> unequal_costs_;
  std::map<int, std::int64_t> work_;
  struct placed {
    schedule_kind kind;
    int chunks, workers;
    auto operator<=>(const placed&) const = default;
  };
  std::map<placed, std::shared_ptr<std::vector<device_spec>>> devices_;
};

GPIPE_COLD GPIPE_INLINE void best_search::throw_too_large(std::int64_t plans) {
  // Bytes that suffice for one of a few plans, which have the most workers and the smallest micro-batches.
  std::stable_sort(states_.begin(), states_.end(), [](const plan_state& a, const plan_state& b) {
    return std::tuple(-a.candidate.workers, a.candidate.micro_batch_size, a.candidate.replicas) <
           std::tuple(-b.candidate.workers, b.candidate.micro_batch_size, b.candidate.replicas);
  });
  std::int64_t enough = unlimited;
  const plan_candidate* smallest = &states_.front().candidate;
  for (std::size_t i = 0; i < states_.size() && i < 6; ++i) {
    const plan_options options = options_of(states_[i].candidate);
    const zeroed_array<int> first(options.stages);
    memory_.cut_evenly(options, first.data());
    const std::int64_t bytes =
        cut_simulator(net_, options, costs_of(states_[i].candidate, options)).most_bytes(first.data());
    if (bytes < enough) enough = bytes, smallest = &states_[i].candidate;
  }
  throw_error({"the search found none of ", plans, " plans for ", several(space_.devices, "device"),
               " that fits the memory limit"},
              {"choose ", enough, " bytes a device, which are enough for ", name_of(smallest->schedule), " with ",
               several(smallest->workers, "worker"), " and micro-batches of ",
               several(smallest->micro_batch_size, "sample"), ", or more devices"});
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE best_plan find_best(const network& net, const plan_space& space, const plan_options& options,
                                            double effort) {
  return detail::best_search(net, space, options, effort).find();
}

GPIPE_COLD GPIPE_INLINE step_plan make_best_plan(const network& net, const plan_space& space,
                                                 const plan_options& options, double effort) {
  const best_plan best = find_best(net, space, options, effort);
  return make_plan(net, best.options, best.cut);
}

GPIPE_COLD GPIPE_INLINE std::string describe(const best_plan& found) {
  using detail::several, detail::time_text, detail::fixed;
  const auto samples = [](int count) { return several(count, "sample"); };
  std::string text = detail::concat({"The best plan for ", several(found.space.devices, "device"),
                                     " and mini-batches of ", samples(found.space.batch), ":\n\n"});
  std::vector<std::vector<std::string>> rows{
      {"", "replicas", "workers", "stages", "schedule", "micro-batches", "samples", "a step", "longer"}};
  const auto add = [&](const char* label, const plan_candidate& candidate) {
    rows.push_back(
        {label, std::to_string(candidate.replicas), std::to_string(candidate.workers), std::to_string(candidate.stages),
         name_of(candidate.schedule), std::to_string(candidate.micro_batches),
         std::to_string(candidate.micro_batch_size), time_text(candidate.step),
         fixed(100 * (static_cast<double>(candidate.step) / static_cast<double>(found.step) - 1), 1) + " %"});
  };
  add("best", found.winner);
  for (const plan_candidate& candidate : found.next) add("next", candidate);
  text += detail::table(rows);
  text += detail::concat({"\nNo plan has a shorter step than ", time_text(found.min), ": this one is at most "}) +
          (found.min > 0 ? fixed(100 * found.gap(), 1) : "?") +
          detail::concat({" % from the best of ", several(found.plans, "plan"), ".\n"});
  text += detail::concat({several(found.simulated, "plan"), " simulated, ", found.too_large,
                          " too large for the memory or seem so, ", found.open, " not ruled out by bounds"});
  if (found.unsearched > 0)
    text += detail::concat({", and of these ", found.unsearched, " not searched: a larger effort goes on"});
  text += ".\nOf the step, " + time_text(found.update) + " are the sums of replicas and the update.\n";
  return text;
}

}  // namespace gpipe
