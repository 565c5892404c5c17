#pragma once

// Plans one subject for one choice: cut, memory and the time of a step. A network is planned as a training plans it.

#include <cstdint>
#include <vector>

#include <gpipe/plan.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/program/simulate.hpp>

#include "best/table_network.hpp"
#include "choice.hpp"
#include "network_planner.hpp"
#include "planned.hpp"
#include "subject.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

/// Plans a table of costs for one choice.
class planner {
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  /// Whether a stage of a table's layers obeys the limit. A table's stage does not depend on the other cuts.
  bool fits(int stage, int begin, int end, std::int64_t limit) const {
    const int ends[] = {begin, end};
    return it_.bytes({ends, 1}, 0, terms_[at(stage)]) <= limit;
  }
  auto fits() const {
    return [this, any = c_.limit == INT64_MAX](int stage, int begin, int end) {
      return any || fits(stage, begin, end, c_.limit);
    };
  }

 public:
  planner(const subject& it, const choice& c) : it_(it), c_(c), o_(c.in(it.options)) {
    require_valid(o_, it.layers());
    with_schedule(c.order(), [this](auto schedule) {
      gpipe::detail::require_admitted(schedule, c_.stages, c_.micro_batches);
      workers_ = schedule.workers(c_.stages);
      trains_ = schedule.trains;
      split_ = trains_ && gpipe::detail::splits_backward(schedule, c_.stages, c_.micro_batches);
    });
    find_terms();
    for (int s = 0; s + 1 < c.stages; ++s) links_.push_back({s, s + 1, true});
  }

  planned plan() {
    require_room();
    const std::int64_t bound = lower_bound();
    return plan_of(best_cut(bound), bound);
  }

  /// The plan of a given cut: the first layer of each stage, and the number of layers.
  planned plan_of(const std::vector<int>& first) { return plan_of(first, lower_bound()); }

  /// The time of a step of a given cut; the largest number if a stage does not obey the memory limit.
  std::int64_t step_time(const std::vector<int>& first) const { return obeys(first) ? step(first) : INT64_MAX; }

 private:
  std::int64_t lower_bound() const {
    return with_schedule(c_.order(), [this](auto schedule) {
      return schedule_lower_bound(schedule, it_.costs.data(), it_.layers(), c_.stages, c_.micro_batches, c_.recompute,
                                  fits());
    });
  }

  planned plan_of(const std::vector<int>& first, std::int64_t bound) {
    planned found;
    found.bound = bound;
    std::vector<std::int64_t> idle(at(workers_));
    const auto record = [&](const instruction& it, std::int64_t from, std::int64_t to) {
      const bool whole = it.kind == action_kind::backward_input && !split_;  // the parameters' part takes no time
      if (to > from)
        found.events.push_back({from, to, whole ? action_kind::backward : it.kind, it.stage, it.micro_batch, -1});
    };
    found.makespan = step(first, {.idle = idle.data()}, record);
    for (int s = 0; s < c_.stages; ++s) {
      const int begin = first[at(s)], end = first[at(s) + 1];
      const stage_times t = times(begin, end);
      found.stages.push_back(
          {begin, end, t.forward, t.backward_input + t.backward_parameters, bytes(first, s, working_sets(first, s)),
           with_schedule(c_.order(), [&](auto schedule) { return schedule.worker_of(c_.stages, s); })});
    }
    found.workers = workers_;
    found.idle = idle_share(idle, found.makespan);
    return found;
  }

  void find_terms() {
    terms_.clear();
    for (int s = 0; s < c_.stages; ++s) terms_.push_back(requirements_of(o_.chosen_schedule(), o_, s));
  }

  /// Whether any cut of a table obeys the limit. Goes from stage to stage and keeps where the next one can begin.
  bool has_room(std::int64_t limit) const {
    const int L = it_.layers();
    std::vector<int> begins{0};
    for (int s = 0; s < c_.stages; ++s) {
      std::vector<int> change(at(L + 2)), ends;  // how many begins reach this end, as differences
      for (const int begin : begins) {
        int low = begin, high = L;  // a larger stage needs more bytes
        while (low < high) {
          const int middle = high - (high - low) / 2;
          if (fits(s, begin, middle, limit)) low = middle;
          else high = middle - 1;
        }
        ++change[at(begin) + 1];
        --change[at(low) + 1];
      }
      int reached = 0;
      for (int end = 1; end <= L; ++end)
        if ((reached += change[at(end)]) > 0) ends.push_back(end);
      if (!ends.empty() && ends.back() == L && s + 1 < c_.stages) ends.pop_back();
      begins.swap(ends);
    }
    return !begins.empty() && begins.back() == it_.layers();
  }

  void require_room() const {
    if (c_.limit == INT64_MAX) return;
    std::int64_t low = c_.limit, high = low;  // low is too small
    if (has_room(c_.limit)) return;
    while (!has_room(high)) high = high > INT64_MAX / 2 ? INT64_MAX : 2 * high;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (has_room(middle) ? high : low) = middle;
    }
    throw error(concat({"--memory-limit is ", several(c_.limit, "byte"), ": no cut of ", several(it_.layers(), "layer"),
                        " into ", several(c_.stages, "stage"), " fits"}),
                concat({"choose at least ", several(high, "byte")}));
  }

  /// How many working sets recompute as needed keeps: as many as fit.
  int working_sets(const std::vector<int>& first, int stage) const {
    int kept = terms_[at(stage)].kept_copies;
    if (c_.recompute == recompute_mode::as_needed)
      while (kept < terms_[at(stage)].in_flight && bytes(first, stage, kept + 1) <= c_.limit) ++kept;
    return kept;
  }
  std::int64_t bytes(const std::vector<int>& first, int stage, int kept) const {
    memory_requirements terms = terms_[at(stage)];
    terms.kept_copies = kept;
    return it_.bytes({first.data(), c_.stages}, stage, terms);
  }

  stage_times times(int begin, int end) const {
    stage_times sum;
    for (int l = begin; l < end; ++l) {
      const layer_cost& c = it_.costs[at(l)];
      sum.forward += c.forward;
      (split_ ? sum.backward_parameters : sum.backward_input) += c.backward_parameters;
      sum.backward_input += c.backward_input;
    }
    return sum;
  }

  template <class Witness = gpipe::detail::no_witness>
  std::int64_t step(const std::vector<int>& first, const simulation_report& details = {},
                    const Witness& witness = {}) const {
    std::vector<stage_times> stages;
    std::vector<int> kept;
    for (int s = 0; s < c_.stages; ++s) {
      stages.push_back(times(first[at(s)], first[at(s) + 1]));
      kept.push_back(working_sets(first, s));
    }
    const std::vector<link_times> transfers = transfers_of(first);
    return simulate(c_.order(),
                    {c_.stages,
                     c_.micro_batches,
                     {c_.recompute, kept.data()},
                     stages.data(),
                     links_.data(),
                     static_cast<int>(links_.size()),
                     transfers.empty() ? nullptr : transfers.data()},
                    details, witness);
  }

  /// The outputs that cross each border of a table's cut, and their gradients; empty if transfers take no time.
  std::vector<link_times> transfers_of(const std::vector<int>& first) const {
    std::vector<link_times> all;
    for (int s = 1; c_.link > 0 && s < c_.stages; ++s) {
      const std::int64_t ns = gpipe::detail::picoseconds(it_.enters(first[at(s)]), c_.link, "the link") / 1000;
      all.push_back({ns, trains_ ? ns : 0});
    }
    return all;
  }

  bool obeys(const std::vector<int>& first) const {
    for (int s = 0; c_.limit != INT64_MAX && s < c_.stages; ++s)
      if (bytes(first, s, terms_[at(s)].kept_copies) > c_.limit) return false;
    return true;
  }

  /// Starts with the partitions' cuts, which are optimal for fill-drain and for forward only, unless a memory limit
  /// decides what is recomputed. Then, until the bound is reached, tries every cut if there are few; else moves one
  /// border at a time while that helps.
  std::vector<int> best_cut(std::int64_t bound) const {
    const int L = it_.layers(), S = c_.stages, M = c_.micro_batches;
    const bool again = c_.recompute == recompute_mode::always || c_.recompute == recompute_mode::except_last;
    std::vector<pass_cost> costs;
    for (const layer_cost& c : it_.costs) costs.push_back(trains_ ? pass_cost_of(c, again) : pass_cost{c.forward, 0});

    std::vector<int> best, first(at(S) + 1);
    std::int64_t shortest = INT64_MAX;
    const auto consider = [&](const std::vector<int>& cut) {
      if (!obeys(cut)) return false;
      const std::int64_t time = step(cut);
      if (time >= shortest) return false;
      shortest = time;
      best = cut;
      return true;
    };
    for (const objective goal : {objective::fill_drain, objective::bottleneck}) {
      partition_problem problem{L, S, M, costs.data()};
      problem.goal = goal;
      problem.recomputes_first = c_.recompute == recompute_mode::always;
      partition(problem, first.data(), fits());
      consider(first);
      if (shortest <= bound) return best;
    }

    const double affordable = c_.effort;
    const double instructions = 8.0 * S * M;
    double cuts = 1;
    for (int s = 1; s < S; ++s) cuts *= static_cast<double>(L - s) / s;
    if (cuts * instructions < 4 * affordable) {
      for (int s = 0; s < S; ++s) first[at(s)] = s;
      for (first.back() = L; shortest > bound;) {
        consider(first);
        int s = S - 1;
        while (s > 0 && first[at(s)] == L - (S - s)) --s;
        if (s == 0) break;
        ++first[at(s)];
        for (; s + 1 < S; ++s) first[at(s) + 1] = first[at(s)] + 1;
      }
      return best;
    }
    double spent = 0;
    for (bool moved = true; moved && shortest > bound && spent < affordable;) {
      moved = false;
      for (int s = 1; s < S; ++s)
        for (const int by : {-1, 1})
          for (bool helps = true; helps && spent < affordable; spent += instructions) {
            first = best;
            first[at(s)] += by;
            helps = first[at(s)] > first[at(s) - 1] && first[at(s)] < first[at(s) + 1] && consider(first);
            moved = moved || helps;
          }
    }
    return best;
  }

  const subject& it_;
  const choice& c_;
  plan_options o_;
  int workers_ = 1;
  bool trains_ = true, split_ = false;
  std::vector<memory_requirements> terms_;  // one a stage, with the fewest working sets
  std::vector<stage_link> links_;
};

/// Plans a table as a network, whose memory is counted as that of a model: with a table of actions that is searched.
inline planned plan_as_network(const subject& it, const choice& c) {
  const table_network made(it.rows);
  plan_options o = c.in(it.options);
  o.micro_batch_size = 1;
  o.optimizer_moments = 0;
  o.profile = made.profile();
  o.cost_transfers = c.link > 0;
  if (c.link > 0) o.device.link_bytes_per_second = c.link, o.device.link_latency_ns = 0;
  return plan_network(made.net(), o);
}

inline planned plan_for(const subject& it, const choice& c) {
  if (it.net != nullptr) return plan_network(*it.net, c.in(it.options));
  return c.schedule == schedule_kind::searched ? plan_as_network(it, c) : planner(it, c).plan();
}

}  // namespace example
