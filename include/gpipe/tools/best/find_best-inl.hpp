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

#include <gpipe/core/concat.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/table.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/cut/choose_warmup.hpp>
#include <gpipe/plan/cut/probed_cut.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/network_options.hpp>
#include <gpipe/plan/partition/checks.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/recompute/recompute_search.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/best/find_best.hpp>
#include <gpipe/tools/best/memory_bound.hpp>
#include <gpipe/tools/best/memory_estimate.hpp>
#include <gpipe/tools/best/path_bound.hpp>
#include <gpipe/tools/best/update_time.hpp>
#include <gpipe/tools/search/searched_plan.hpp>

namespace gpipe {

namespace detail {

/// A best-first search in two passes. Each plan has a lower bound of its step, and the plan with the smallest one comes
/// next; a plan whose bound reaches the best step that is known leaves the search.
///
///     first    bound by work  -->  bound of its schedule  -->  step of the cut without limits
///     second   step of its best cut: first the plans with the shortest step, or where that cut does not fit, bound
///
/// The third number is a step if its stages fit with what they recompute. The last one needs most time. Before it, and
/// at the end for the plans whose bounds are smallest, a better bound is found, by paths.
class best_search {
 public:
  best_search(const network& net, const plan_space& space, const plan_options& rest, double effort)
      : net_(net),
        space_(space),
        rest_(rest),
        memory_(net),
        effort_(effort > 0 && effort <= max_effort ? static_cast<std::int64_t>(effort * cells_of_a_second) : 0),
        left_(effort_) {
    require_space(space, rest, net.layer_count);
    require_precision(net, rest);
    require_layers(net, rest.recompute_layers);
    if (!(effort > 0 && effort <= max_effort))
      throw_error({"the effort of a search is not a number above 0"}, {"choose 1 for about a second"});
    rest_.cost_transfers = rest_.cost_parameters = true;
    limit_ = rest.memory_limit;
    device_limit_ = rest.device.memory_limit;
    rest_.device.memory_limit = (std::min)(rest_.device.memory_limit, limit_);
    rest_.memory_limit = no_memory_limit;
    rest_.device_count = 0;
    if (rest.device_count == 0) rest_.devices = nullptr;
    limits_ = rest.limits_memory();
    chained_ = chained_from(net).begin(true) <= 1;
    space_.min_micro_batch_size = least_micro_batch_size(net, space_);
    for (const plan_candidate& it : candidates_in(space_, rest, net.layer_count)) all_.push_back({it, progress::work});
  }

  best_plan find() {
    if (all_.empty())
      throw_error({"the space has no plan: what it fixes holds fewer than ", several(space_.batch, "sample"),
                   ", or needs more stages than the model's ", several(net_.layer_count, "layer")},
                  {"fix fewer choices"});
    require_valid(options_of(all_.front().it), net_.layer_count);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      all_[i].it.bound = bound_by_work(all_[i].it);
      queue_.push({all_[i].it.bound, i});
    }
    if (limits_) simulate_small();
    for (const waits_for level : {waits_for::room, waits_for::recompute, waits_for::nothing}) {
      take_all(level);
      for (; !later_.empty(); later_.pop()) queue_.push(later_.top());
    }
    search_cuts();
    certify();
    return result();
  }

 private:
  /// How far a plan has come.
  enum class progress : std::uint8_t { work, schedule, simulated, searched };
  struct entry {
    plan_candidate it;
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

  /// Begins with the plans that need least memory: the smallest micro-batches of some schedules on each number of
  /// replicas and workers. Under a tight limit few others fit.
  void simulate_small() {
    std::map<std::tuple<int, int, schedule_kind>, std::size_t> smallest;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const plan_candidate& it = all_[i].it;
      const auto [at, first] = smallest.insert({{it.replicas, it.workers, it.schedule}, i});
      if (!first && it.micro_batch_size < all_[at->second].it.micro_batch_size) at->second = i;
    }
    for (const auto& [of, i] : smallest) {
      const schedule_kind kind = std::get<2>(of);
      if (!space_.schedule && kind != schedule_kind::one_f_one_b && kind != schedule_kind::zb_h1 &&
          kind != schedule_kind::zb_v)
        continue;
      if (left_ < effort_ / 2) return;
      while (all_[i].reached != progress::simulated) advance(i);
    }
  }

  /// Whether no plan is known, so that the search goes on beyond its effort: under limits, twice as long.
  bool is_without(waits_for level) const {
    return best_ < 0 && level == waits_for::nothing && (!limits_ || left_ > -effort_);
  }
  /// The first pass over the plans of a level.
  void take_all(waits_for level) {
    const std::int64_t left = level == waits_for::nothing ? effort_ / 4 : effort_ / 2;
    while (!queue_.empty() && queue_.top().first < best_step() && (left_ > left || is_without(level))) {
      const waiting next = queue_.top();
      entry& e = all_[next.second];
      queue_.pop();
      if (e.reached == progress::simulated) continue;  // it was one of the small
      if (limits_ && e.reached == progress::work && memory_.exceeds_in_one_layer(options_of(e.it))) {
        advance(next.second);  // its bound still counts
        e.refused = true;
      }
      if (limits_ && e.reached == progress::schedule) {
        if (level != waits_for::nothing && seems_too_large(e.it, level)) {
          later_.push(next);
          continue;
        }
        e.refused = is_like_a_refused(e.it);
      }
      if (e.refused) continue;
      advance(next.second);
      if (e.reached != progress::simulated) queue_.push({e.it.bound, next.second});
    }
  }

  static constexpr double max_effort = 1e6;
  // A simulated cell takes some 0.3 us.
  static constexpr std::int64_t cells_of_a_second = 3'000'000;

  std::int64_t best_step() const { return best_ < 0 ? unlimited : all_[index(best_)].it.step; }

  /// The options of a plan; if devices differ, with those of its stages.
  plan_options options_of(const plan_candidate& it) {
    plan_options o = it.in(rest_);
    if (o.schedule == schedule_kind::interleaved && o.warmup == warmup_kind::automatic)
      o.warmup = warmup_kind::shortest;
    if (rest_.devices == nullptr) return o;
    std::shared_ptr<std::vector<device_spec>>& of = devices_[{it.schedule, it.chunks, it.workers}];
    if (of == nullptr) {
      of = std::make_shared<std::vector<device_spec>>();
      for (int s = 0; s < it.stages; ++s) {
        const device_spec& on = rest_.devices[o.chosen_schedule().worker_of(it.stages, s)];
        of->push_back(on.with_limit((std::min)(on.memory_limit, limit_)));
      }
    }
    o.devices = of->data();
    o.device_count = it.stages;
    return o;
  }

  /// The costs of a plan's layers, which depend on the size of micro-batches.
  stage_costs costs_of(const plan_candidate& it, const plan_options& o) {
    std::vector<layer_cost>& of = o.device_count > 0 ? unequal_costs_ : costs_[it.micro_batch_size];
    if (of.empty() || o.device_count > 0) {
      of.resize(static_cast<std::size_t>(cost_count(net_, o)));
      fill_costs(net_, o, of.data());
    }
    return {of.data(), net_.layer_count, o.device_count > 0};
  }

  /// All work, shared by the workers.
  std::int64_t bound_by_work(const plan_candidate& it) {
    const plan_options o = options_of(it);
    std::int64_t& all = work_[it.micro_batch_size];
    if (all == 0) all = least_work(o);
    return summed(share_of(multiplied(all, it.micro_batches), it.workers), least_update(it, o));
  }
  /// The work of a micro-batch if each layer is on the device that is fastest for it.
  std::int64_t least_work(plan_options o) const {
    const int kinds = rest_.devices == nullptr ? 1 : space_.devices;
    if (rest_.devices != nullptr) o.devices = rest_.devices, o.device_count = o.stages = kinds;
    std::vector<layer_cost> costs(static_cast<std::size_t>(cost_count(net_, o)));
    const stage_costs of = fill_costs(net_, o, costs.data());
    std::int64_t all = 0;
    for (int l = 0; l < net_.layer_count; ++l) {
      std::int64_t least = unlimited;
      for (int k = 0; k < kinds; ++k) {
        const pass_cost c = pass_cost_of(of.of(k)[l], false);
        least = (std::min)(least, summed(c.forward, c.backward));
      }
      all = summed(all, least);
    }
    return all;
  }
  std::int64_t least_update(const plan_candidate& it, const plan_options& o) const {
    return rest_.devices != nullptr ? 0 : update_time(share_of(memory_.parameter_bytes(), it.workers), o, rest_.device);
  }

  /// With all micro-batches in flight or, beyond the first level, with recompute.
  bool seems_too_large(const plan_candidate& it, waits_for level) { return needed_over_had(it, level) > 1; }
  double needed_over_had(const plan_candidate& it, waits_for level) {
    const plan_options o = options_of(it);
    return memory_.needed_over_had(o, level == waits_for::room ? memory_.copies_in_flight(o) : 1);
  }
  /// Whether a plan was refused that differs in nothing but smaller micro-batches, and not more of them in flight.
  bool is_like_a_refused(const plan_candidate& it) const {
    const auto alike = [](const plan_candidate& p) { return std::tuple(p.schedule, p.chunks, p.replicas, p.workers); };
    const schedule_choice schedule(it.schedule, it.chunks);
    return std::any_of(refused_.begin(), refused_.end(), [&](std::size_t i) {
      const plan_candidate& other = all_[i].it;
      if (alike(other) != alike(it) || other.micro_batch_size > it.micro_batch_size) return false;
      for (int s = 0; s < it.stages; ++s)
        if (schedule.in_flight(it.stages, it.micro_batches, s) < schedule.in_flight(it.stages, other.micro_batches, s))
          return false;
      return true;
    });
  }

  /// Takes a plan one step further in the first pass.
  void advance(std::size_t i) {
    entry& e = all_[i];
    const plan_options o = options_of(e.it);
    const stage_costs costs = costs_of(e.it, o);
    left_ -= net_.layer_count + std::int64_t{e.it.stages} * e.it.micro_batches / 4;
    if (e.reached == progress::work) {
      e.reached = progress::schedule;
      const std::int64_t update = least_update(e.it, o);
      raise(e, update + least_of_warmups(o, [&](const plan_options& with) {
                 return lower_bound_of(net_, with, with.chosen_schedule(), costs);
               }));
      if (!limits_ || o.device_count > 0) return;
      const std::int64_t within =
          least_of_warmups(o, [&](const plan_options& with) { return memory_bound(net_, with, costs).step(); });
      if (within == unlimited) e.fits = false, e.refused = true;
      else raise(e, within + update);
    } else {
      e.reached = progress::simulated;
      simulate_free_cut(e, o, costs);
      (e.refused ? refused_ : second_).push_back(i);
    }
    if (e.it.step < best_step()) best_ = static_cast<int>(i);
  }
  /// Calls `use` for the options of each warm-up that a plan may have: where there are two, `options_of` has the
  /// shortest.
  template <class Use>
  void each_warmup(plan_options o, const Use& use) const {
    use(o);
    if (o.schedule != schedule_kind::interleaved || rest_.warmup != warmup_kind::automatic) return;
    o.warmup = o.warmup == warmup_kind::longest ? warmup_kind::shortest : warmup_kind::longest;
    use(o);
  }
  template <class Bound>
  std::int64_t least_of_warmups(const plan_options& o, const Bound& bound) const {
    std::int64_t least = unlimited;
    each_warmup(o, [&](const plan_options& with) { least = (std::min)(least, bound(with)); });
    return least;
  }
  static void raise(entry& e, std::int64_t bound) { e.it.bound = (std::max)(e.it.bound, bound); }

  /// The second pass.
  void search_cuts() {
    const auto score = [&](std::size_t i) {
      const plan_candidate& it = all_[i].it;
      if (it.step != unlimited) return static_cast<double>(it.step);
      return 1.125 * static_cast<double>(it.bound) * (std::max)(1.0, needed_over_had(it, waits_for::recompute));
    };
    std::stable_sort(second_.begin(), second_.end(), [&](auto i, auto j) { return score(i) < score(j); });
    int searched = 0;
    const std::int64_t layers_squared =
        std::int64_t{net_.layer_count} * net_.layer_count;             // about the work of a search
    const auto refused = static_cast<std::ptrdiff_t>(second_.size());  // what seemed too large may fit
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].refused) second_.push_back(i);
    std::stable_sort(second_.begin() + refused, second_.end(), [&](auto i, auto j) { return score(i) < score(j); });
    for (const std::size_t i : second_) {
      entry& e = all_[i];
      if (left_ <= 0 && searched >= (best_ < 0 ? 4 : 1) * least_searched) break;
      if (best_ >= 0 && limits_ && left_ < layers_squared - 4 * effort_) break;  // one search would take too long
      if (e.reached == progress::searched) continue;
      if (e.it.bound >= best_step()) continue;
      bound_by_paths(e, least_rounds);
      if (e.it.bound >= best_step()) continue;
      const plan_options o = options_of(e.it);
      left_ -= net_.layer_count;
      search(e, o, costs_of(e.it, o));
      ++searched;
      if (e.it.step < best_step()) best_ = static_cast<int>(i);
    }
    if (limits_ && best_ >= 0) shorten(all_[index(best_)]);
  }
  static constexpr int least_searched = 4;  // even if the effort is spent

  static constexpr int least_rounds = 64, most_rounds = 4096;
  static constexpr std::int64_t steps_of_a_cell = 50;  // of a bound by paths

  /// Raises the bound of a plan by paths through its table, which bound it if neighbouring stages of any cut have a
  /// link.
  void bound_by_paths(entry& e, int rounds) {
    if (e.rounds >= rounds || !chained_) return;
    e.rounds = rounds;
    const plan_options o = options_of(e.it);
    const stage_costs costs = costs_of(e.it, o);
    const std::int64_t update = least_update(e.it, o);
    raise(e, update + least_of_warmups(o, [&](const plan_options& with) {
               path_bound paths(with, costs);
               left_ -= rounds * (paths.cells() + std::int64_t{o.stages} * net_.layer_count) / steps_of_a_cell;
               return paths.step(best_step() - update, rounds);
             }));
  }
  /// Raises the smallest bounds while that helps: no more than a quarter of the effort.
  void certify() {
    if (best_ < 0) return;
    queue_ = {};
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (all_[i].fits && all_[i].it.bound < best_step()) queue_.push({all_[i].it.bound, i});
    for (const std::int64_t left = left_ - effort_ / 4; !queue_.empty() && left_ > left;) {
      const std::size_t i = queue_.top().second;
      entry& e = all_[i];
      queue_.pop();
      if (e.rounds >= most_rounds || !chained_) return;
      bound_by_paths(e, (std::max)(least_rounds, 4 * e.rounds));
      if (e.it.bound < best_step()) queue_.push({e.it.bound, i});
    }
  }

  /// The step of the best cut without limits, if its stages obey them with what they recompute.
  void simulate_free_cut(entry& e, const plan_options& o, const stage_costs& costs) {
    const zeroed_array<int> first(o.stages);
    gpipe::search_cut(net_, o, o.chosen_schedule(), costs, first.data(), no_memory_limit);
    const cut_simulator simulator(net_, o, costs);
    const auto is_too_large = [&] {
      take(e, o, simulator.step_of(first.data()), first.data());
      return e.it.step == unlimited && o.limits_memory() && simulator.all_exceed(first.data());
    };
    e.refused = is_too_large();
    if (e.it.step == unlimited && !e.refused && o.stages > 1) {
      memory_.cut_evenly(o, first.data());
      e.refused = is_too_large();
    }
    left_ -= simulator.work();
  }
  void search(entry& e, plan_options o, const stage_costs& costs) {
    e.reached = progress::searched;
    if (cut_simulator(net_, o, costs).affordable_cuts() > 0) return simulate_all(e, o, costs);
    const zeroed_array<int> first(o.stages);
    if (limits_) {
      if (!probe(o, costs, first.data())) return;
    } else {
      o.warmup = rest_.warmup;
      o.warmup = choose_warmup(net_, o);
      const cut_search found = gpipe::search_cut(net_, o, o.chosen_schedule(), costs, first.data());
      left_ -= (o.schedule == schedule_kind::interleaved ? 3 : 1) * max_simulated_cells;  // two for its warm-up
      shorten_step(net_, o, costs, found.whole, first.data());
    }
    each_warmup(o, [&](const plan_options& with) {
      const cut_simulator simulator(net_, with, costs);
      take(e, with, simulator.step_of(first.data()), first.data());
      left_ -= simulator.work();
    });
  }
  /// Writes a cut that obeys the limits, probed as for models of many layers: a search takes many times as long.
  bool probe(const plan_options& o, const stage_costs& costs, int* first) {
    const schedule_choice schedule = o.chosen_schedule();
    const zeroed_array<memory_requirements> needs(o.stages);
    for (int s = 0; s < o.stages; ++s) needs[s] = requirements_of(schedule, o, s);
    const stage_limits limits(o, 0);
    recompute_search recompute(net_, o, costs, needs.data());
    const bool found = with_problem(net_, o, schedule, costs, [&](const partition_problem& problem) {
      return probed_cut(problem, limits.data(), recompute).find(first);
    });
    left_ -= recompute.work();
    return found;
  }
  /// Moves the boundaries of a plan's cut. Under a limit that takes as long as several searches.
  void shorten(entry& e) {
    plan_options o = options_of(e.it);
    o.warmup = e.warmup;
    const stage_costs costs = costs_of(e.it, o);
    const cut_simulator simulator(net_, o, costs);
    if (simulator.affordable_cuts() > 0) return;
    const zeroed_array<int> first(o.stages);
    take_cut(e.cut.data(), static_cast<int>(e.cut.size()), net_.layer_count, o.stages, first.data());
    shorten_step(net_, o, costs, false, first.data());
    take(e, o, simulator.step_of(first.data()), first.data());
  }
  /// The shortest step of all cuts: no other has a shorter one.
  void simulate_all(entry& e, const plan_options& o, const stage_costs& costs) {
    const std::int64_t before = best_step(), update = least_update(e.it, o);
    std::int64_t shortest = unlimited;  // or not shorter than the best plan before
    each_warmup(o, [&](const plan_options& with) {
      const cut_simulator simulator(net_, with, costs);
      const auto use = [&](const int* first, std::int64_t step) {
        shortest = (std::min)(shortest, take(e, with, step, first));
      };
      simulator.simulate_all(use, [&] { return before == unlimited ? unlimited : before - update; });
      left_ -= simulator.work();
    });
    e.fits = before != unlimited || shortest != unlimited;
    if (e.fits) raise(e, (std::min)(before, shortest));
  }
  /// Takes a cut with this makespan if its step is shorter. Returns the step, with the update; `unlimited`: it does not
  /// fit.
  std::int64_t take(entry& e, const plan_options& o, std::int64_t makespan, const int* first) {
    if (makespan == unlimited) return unlimited;
    const std::int64_t update = update_time(net_, o, first);
    const std::int64_t step = summed(makespan, update);
    if (step >= e.it.step) return step;
    e.it.step = step;
    e.update = update;
    e.warmup = o.warmup;
    e.cut.assign(first + 1, first + o.stages);
    return step;
  }

  best_plan result() {
    best_plan found;
    found.space = space_;
    found.plans = static_cast<std::int64_t>(all_.size());
    std::vector<const entry*> others;
    found.min = best_step();
    for (const entry& e : all_) {
      const bool ruled_out = !e.fits || e.it.bound >= best_step();
      found.too_large += !e.fits || e.refused;
      found.simulated += e.it.step != unlimited;
      found.open += !ruled_out;
      found.unsearched += !ruled_out && e.reached != progress::searched;
      if (!ruled_out) found.min = (std::min)(found.min, e.it.bound);
      if (e.it.step != unlimited && &e != &all_[index(best_)]) others.push_back(&e);
    }
    if (best_ < 0) throw_too_large(found.plans);
    std::stable_sort(others.begin(), others.end(), [](auto a, auto b) { return a->it.step < b->it.step; });
    found.winner = all_[index(best_)].it;
    for (std::size_t i = 0; i < others.size() && i < 5; ++i) found.next.push_back(others[i]->it);
    found.options = options_of(found.winner);
    if (found.winner.stages == found.winner.workers && rest_.devices == nullptr) {  // errors name the given option
      found.options.memory_limit = limit_;
      found.options.device.memory_limit = device_limit_;
    }
    found.options.warmup = all_[index(best_)].warmup;
    found.cut = all_[index(best_)].cut;
    found.step = found.winner.step;
    found.update = all_[index(best_)].update;
    if (const auto of = devices_.find({found.winner.schedule, found.winner.chunks, found.winner.workers});
        of != devices_.end())
      found.devices = of->second;
    return found;
  }

  [[noreturn]] void throw_too_large(std::int64_t plans);

  const network& net_;
  plan_space space_;
  plan_options rest_;
  const memory_estimate memory_;
  std::int64_t effort_, left_, limit_ = 0, device_limit_ = 0;
  std::vector<entry> all_;
  std::vector<std::size_t> second_, refused_;  // plans for the second pass; those that do not fit
  int best_ = -1;
  using waiting = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<waiting, std::vector<waiting>, std::greater<>> queue_, later_;
  bool chained_ = false;  // each layer reads the one before
  bool limits_ = false;   // any device has a memory limit
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
  std::stable_sort(all_.begin(), all_.end(), [](const entry& a, const entry& b) {
    return std::tuple(-a.it.workers, a.it.micro_batch_size, a.it.replicas) <
           std::tuple(-b.it.workers, b.it.micro_batch_size, b.it.replicas);
  });
  std::int64_t enough = unlimited;
  const plan_candidate* with = &all_.front().it;
  for (std::size_t i = 0; i < all_.size() && i < 6; ++i) {
    const plan_options o = options_of(all_[i].it);
    const zeroed_array<int> first(o.stages);
    memory_.cut_evenly(o, first.data());
    const std::int64_t bytes = cut_simulator(net_, o, costs_of(all_[i].it, o)).most_bytes(first.data());
    if (bytes < enough) enough = bytes, with = &all_[i].it;
  }
  throw_error({"the search found none of ", plans, " plans for ", several(space_.devices, "device"),
               " that fits the memory limit"},
              {"choose ", enough, " bytes a device, which are enough for ", name_of(with->schedule), " with ",
               several(with->workers, "worker"), " and micro-batches of ", several(with->micro_batch_size, "sample"),
               ", or more devices"});
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE best_plan find_best(const network& net, const plan_space& space, const plan_options& rest,
                                            double effort) {
  return detail::best_search(net, space, rest, effort).find();
}

GPIPE_COLD GPIPE_INLINE step_plan make_best_plan(const network& net, const plan_space& space, const plan_options& rest,
                                                 double effort) {
  const best_plan best = find_best(net, space, rest, effort);
  return make_plan(net, best.options, best.cut);
}

GPIPE_COLD GPIPE_INLINE std::string describe(const best_plan& found) {
  using detail::several, detail::time_text, detail::fixed;
  const auto samples = [](int count) { return several(count, "sample"); };
  std::string text = detail::concat({"The best plan for ", several(found.space.devices, "device"),
                                     " and mini-batches of ", samples(found.space.batch), ":\n\n"});
  std::vector<std::vector<std::string>> rows{
      {"", "replicas", "workers", "stages", "schedule", "micro-batches", "samples", "a step", "longer"}};
  const auto add = [&](const char* what, const plan_candidate& it) {
    rows.push_back({what, std::to_string(it.replicas), std::to_string(it.workers), std::to_string(it.stages),
                    name_of(it.schedule), std::to_string(it.micro_batches), std::to_string(it.micro_batch_size),
                    time_text(it.step),
                    fixed(100 * (static_cast<double>(it.step) / static_cast<double>(found.step) - 1), 1) + " %"});
  };
  add("best", found.winner);
  for (const plan_candidate& it : found.next) add("next", it);
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
