#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan/options/table_schedule.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>
#include <gpipe/tools/search/exact_order.hpp>
#include <gpipe/tools/search/list_schedule.hpp>
#include <gpipe/tools/search/order_search.hpp>
#include <gpipe/tools/search/pipeline.hpp>
#include <gpipe/tools/search/rules.hpp>
#include <gpipe/tools/search/table_bound.hpp>

namespace gpipe {

/// A schedule whose table was made for one pipeline.
class made_schedule : public table_schedule {
 public:
  /// The length of a step, in the unit of the pipeline's times.
  std::int64_t makespan() const { return makespan_; }
  /// No table of this pipeline is shorter.
  std::int64_t lower_bound() const { return lower_bound_; }
  /// The table is at most this share longer than the shortest one.
  double gap() const {
    return lower_bound_ == 0 ? 0 : static_cast<double>(makespan_ - lower_bound_) / static_cast<double>(lower_bound_);
  }

 protected:
  struct made {
    std::string text;
    std::int64_t makespan = 0, lower_bound = 0;
  };
  GPIPE_COLD made_schedule(const char* name, const made& table)
      : table_schedule({name, table.text}), makespan_(table.makespan), lower_bound_(table.lower_bound) {}

  /// The text of orders, for `schedule_table`.
  GPIPE_COLD static std::string text_of(const searched_pipeline& pipeline, const detail::worker_orders& orders) {
    std::string text;
    for (int w = 0; w < pipeline.workers; ++w) {
      int done[6]{};
      for (int i = 0; i < orders.length(); ++i) {
        const int code = orders.row(w)[i];
        const cell action{detail::kind_of(code), pipeline.stage_at(w, detail::chunk_of(code)), done[code]++};
        if (i > 0) text += ',';
        text += detail::label_of(action, true).text();
      }
      text += '\n';
    }
    return text;
  }

 private:
  std::int64_t makespan_, lower_bound_;
};

/// A schedule made by a rule, which ranks the actions that a worker could begin. The smallest rank comes first; a
/// negative one waits until no worker can begin anything else. Backward has two parts.
///
///     const ruled_schedule ruled({.workers = 4, .micro_batches = 16}, [](const ready_action& a) {
///       return a.kind == action_kind::backward_input ? 0 : a.kind == action_kind::forward ? 1 : 2;
///     });
///     trainer<net> training{ruled.chosen_in({.micro_batch_size = 8})};
class ruled_schedule : public made_schedule {
 public:
  template <class Rule>
  ruled_schedule(const searched_pipeline& pipeline, const Rule& rule) : made_schedule("ruled", make(pipeline, rule)) {}

 private:
  template <class Rule>
  GPIPE_COLD static made make(const searched_pipeline& pipeline, const Rule& rule) {
    detail::require_searchable(pipeline);
    detail::worker_orders orders(pipeline);
    const std::int64_t makespan = detail::list_schedule(pipeline, rule, orders).run();
    return {text_of(pipeline, orders), makespan, lower_bound_of_tables(pipeline)};
  }
};

/// A schedule whose table is searched for the times, links and bytes of given stages, which need not be equal:
///
/// 1. The first tables come from the library's schedules that fit, from `gradients_first` and from random rules.
/// 2. Simulated annealing improves those near the best one. So the result is never longer than any of them.
/// 3. For a small pipeline, branch and bound finds the shortest table and proves it: then `gap()` is 0.
/// 4. For others a lower bound of all tables limits the distance to the shortest.
///
/// A search gives the same table in every run. Its time grows with `effort`: about half a second for 1.
///
///     const searched_schedule found({.workers = 4, .micro_batches = 16, .stages = stages.data()});
///     trainer<net> training{found.chosen_in({.micro_batch_size = 8})};
///
/// A plan with `schedule_kind::searched` runs this search for its own stages.
class searched_schedule : public made_schedule {
 public:
  explicit searched_schedule(const searched_pipeline& pipeline, double effort = 1)
      : made_schedule("searched", search(pipeline, effort)) {}

 private:
  static made search(const searched_pipeline& pipeline, double effort);
};

namespace detail {

/// Reads the orders of a schedule's workers. False: it has another placement, or a row breaks a limit.
GPIPE_COLD inline bool read_orders(const searched_pipeline& pipeline, const schedule_choice& schedule,
                                   worker_orders& orders) {
  const int S = pipeline.stage_count(), M = pipeline.micro_batches;
  if (!schedule.trains || !schedule.admits(S, M) || schedule.workers(S) != pipeline.workers) return false;
  for (int s = 0; s < S; ++s)
    if (schedule.worker_of(S, s) != pipeline.worker_of(s)) return false;
  for (int w = 0; w < pipeline.workers; ++w) {
    int n = 0;
    const auto put = [&](action_kind kind, int stage) {
      orders.row(w)[n++] = static_cast<std::uint8_t>(code_of(kind, pipeline.chunk_of(stage)));
    };
    for (int t = 0; t < schedule.ticks(S, M); ++t) {
      const cell c = schedule.at(S, M, w, t);
      if (c.kind == action_kind::idle) continue;
      put(c.kind == action_kind::backward ? action_kind::backward_input : c.kind, c.stage);
      if (c.kind == action_kind::backward) put(action_kind::backward_parameters, c.stage);
    }
    if (!row_holds(pipeline, w, orders.row(w), orders.length())) return false;
  }
  return true;
}

/// The orders that a search has found so far.
class order_candidates {
 public:
  explicit order_candidates(const searched_pipeline& pipeline)
      : pipeline_(pipeline), bound_(lower_bound_of_tables(pipeline)), orders_(pipeline) {}

  struct candidate {
    std::unique_ptr<worker_orders> orders;
    std::int64_t makespan;
    bool by_rule;
  };

  bool optimal() const { return !candidates_.empty() && best().makespan == bound_; }
  /// No table is shorter.
  std::int64_t lower_bound() const { return bound_; }
  const candidate& best() const { return *std::min_element(candidates_.begin(), candidates_.end(), shorter); }

  GPIPE_COLD void add_known() {
    order_times times(pipeline_);
    for (const schedule_kind kind : schedule_kinds)
      if (read_orders(pipeline_, kind, orders_)) add(times.run(orders_), false);
  }
  /// The best of `gradients_first` and a number of random rules.
  GPIPE_COLD void add_by_rules(int rules) {
    add(list_schedule(pipeline_, gradients_first{}, orders_).run(), true);
    candidate& best_ruled = candidates_.back();
    random_sequence random(first_seed + 1);
    for (int k = 0; k < rules && best_ruled.makespan > bound_; ++k) {
      const random_rule rule(pipeline_, random);
      const std::int64_t makespan = list_schedule(pipeline_, rule, orders_).run();
      if (makespan >= best_ruled.makespan) continue;
      best_ruled.makespan = makespan;
      best_ruled.orders->assign(orders_);
    }
  }
  /// Spends a third of the moves on all tables near the best, a third on the best one of a known schedule and the best
  /// one by a rule, because these are far apart, and a third on the best.
  GPIPE_COLD void improve(double moves, double longest) {
    constexpr double heat[] = {0.15, 0.09, 0.045};
    for (std::size_t round = 0; round < 3 && !optimal(); ++round) {
      std::sort(candidates_.begin(), candidates_.end(), shorter);
      std::vector<candidate*> chosen;
      bool found[2] = {false, false};
      for (candidate& known : candidates_) {
        const bool is_near =
            static_cast<double>(known.makespan) < 1.04 * static_cast<double>(candidates_.front().makespan);
        if (round == 0 ? is_near : round == 1 ? !found[known.by_rule] : chosen.empty()) chosen.push_back(&known);
        found[known.by_rule] = true;
      }
      for (std::size_t i = 0; i < chosen.size() && !optimal(); ++i) {
        order_search search(pipeline_, first_seed + 100 * round + i);
        search.start(*chosen[i]->orders);
        search.run(static_cast<int>(moves / 3 / static_cast<double>(chosen.size())), bound_, longest * heat[round]);
        chosen[i]->orders->assign(search.best());
        chosen[i]->makespan = search.makespan();
      }
    }
  }

  /// Finds the shortest table and proves it, unless there are more than `parts` partial tables to try.
  GPIPE_COLD void prove(double parts) {
    candidate& known = *std::min_element(candidates_.begin(), candidates_.end(), shorter);
    exact_order search(pipeline_, *known.orders, known.makespan);
    const bool proven = search.run(static_cast<std::int64_t>(parts));
    known.orders->assign(search.best());
    known.makespan = search.makespan();
    if (proven) bound_ = known.makespan;
  }

 private:
  /// The best of five seeds: with the others the idle share at 3/4 of 1F1B's activations is 5.9 to 7.2 % for 8 workers
  /// and 6.6 to 10.5 % for 16.
  static constexpr std::uint64_t first_seed = 2000;

  static bool shorter(const candidate& a, const candidate& b) { return a.makespan < b.makespan; }
  void add(std::int64_t makespan, bool by_rule) {
    candidates_.push_back({std::make_unique<worker_orders>(pipeline_), makespan, by_rule});
    candidates_.back().orders->assign(orders_);
  }

  const searched_pipeline pipeline_;
  std::int64_t bound_;
  worker_orders orders_;
  std::vector<candidate> candidates_;
};

}  // namespace detail

GPIPE_COLD inline made_schedule::made searched_schedule::search(const searched_pipeline& pipeline, double effort) {
  detail::require_searchable(pipeline);
  constexpr double rules = 2e5, moves = 1e8;  // actions placed in about a second
  constexpr double parts = 1e5;               // partial tables tried in half a second
  constexpr double few = 256;                 // actions; more have too many partial tables
  std::int64_t longest = 0;
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const searched_stage stage = pipeline.stage(s);
    longest = (std::max)({longest, stage.forward, stage.backward_input, stage.backward_parameters});
  }
  const double actions = 3.0 * pipeline.stage_count() * pipeline.micro_batches;
  detail::order_candidates candidates(pipeline);
  candidates.add_known();
  if (!candidates.optimal()) candidates.add_by_rules(static_cast<int>((std::min)(1e6, 1 + rules * effort / actions)));
  const auto improve = [&](double share) {
    candidates.improve((std::min)(1e8, share * moves * effort / actions), static_cast<double>(longest));
  };
  if (actions <= few) improve(0.02);
  if (actions <= few && !candidates.optimal()) candidates.prove((std::min)(1e6, parts * effort));
  improve(1);
  return {text_of(pipeline, *candidates.best().orders), candidates.best().makespan, candidates.lower_bound()};
}

}  // namespace gpipe
