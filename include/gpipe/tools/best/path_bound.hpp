#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

namespace gpipe::detail {

/// A lower bound of the step of a schedule's table, for any cut of a chain of layers, in picoseconds. It includes the
/// time in which the pipeline fills and drains, with any number of stages per worker.
///
/// A path through the table, from cell to cell that must come later, has a length for each cut. No step is shorter
/// than a path, or than a mean of paths, and the cut for which a mean is shortest is found exactly, layer by layer:
///
///     shortest step >= max over means of paths, min over cuts, of the mean's length
///
/// The maximum is the value of a game of two players. Each in turn answers the mean of the other's moves: the longest
/// path for the mean of the cuts, then the cut for which the mean of the paths is shortest (fictitious play, Brown,
/// 1951). Each round gives a bound.
class path_bound {
 public:
  path_bound(const plan_options& o, const stage_costs& costs) : costs_(costs), stages_(o.stages) {
    const schedule_choice schedule = o.chosen_schedule();
    read(schedule, o.micro_batches);
    const std::size_t n = index(kinds * stages_);
    times_.resize(n), visits_.resize(n);
  }

  /// The cells of the table: a round visits each of them, and each stage with each layer.
  std::int64_t cells() const { return static_cast<std::int64_t>(cells_.size()); }

  /// Plays until a bound reaches `enough`, at most `rounds` rounds. The first cut has equally many layers per stage.
  std::int64_t step(std::int64_t enough, int rounds) {
    cut_.clear();
    for (int s = 0; s <= stages_; ++s) cut_.push_back(static_cast<int>(std::int64_t{s} * costs_.layers / stages_));
    double best = 0;
    for (int round = 1; round <= rounds && best < static_cast<double>(enough); ++round) {
      add_times(round);
      add_longest_path(round);
      const double weights = 0.5 * round * (round + 1.0);
      best = (std::max)(best, shortest_cut() / weights);
    }
    return static_cast<std::int64_t>(best * (1 - 1e-9));  // sums of doubles are not exact
  }

 private:
  enum kind { forward, input, parameters, kinds };
  struct table_cell {
    int stage;
    action_kind kind_of_action;
    int worker_cell, input_cell;  ///< earlier cells: of the worker, and of another stage; -1: none
  };

  /// Lists the cells so that each comes after those that it waits for.
  void read(const schedule_choice& schedule, int micro_batches) {
    const int K = schedule.workers(stages_), M = micro_batches;
    const tick_index<schedule_choice> table(schedule, stages_, M);
    std::vector<std::vector<cell>> rows(index(K));
    const bool split = splits_backward(schedule, stages_, M);
    for (int w = 0; w < K; ++w)
      table.walk(w, [&](int, cell c) {  // a gradient leaves before the parameter part
        const bool both = split && c.kind == action_kind::backward;
        if (both) c.kind = action_kind::backward_input;
        rows[index(w)].push_back(c);
        if (both) rows[index(w)].push_back({action_kind::backward_parameters, c.stage, c.micro_batch});
      });
    std::vector<int> forwards(index(stages_ * M), -1), backwards(forwards), last(index(K), -1);
    std::vector<std::size_t> next(index(K));
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < rows.size(); ++w)
        for (; next[w] < rows[w].size(); ++next[w], moved = true) {
          const cell& c = rows[w][next[w]];
          const bool back = c.kind == action_kind::backward || c.kind == action_kind::backward_input;
          int input_cell = -1;
          if (c.kind == action_kind::forward && c.stage > 0) {
            if ((input_cell = forwards[index((c.stage - 1) * M + c.micro_batch)]) < 0) break;
          } else if (back && c.stage + 1 < stages_) {
            if ((input_cell = backwards[index((c.stage + 1) * M + c.micro_batch)]) < 0) break;
          }
          const int number = static_cast<int>(cells_.size());
          cells_.push_back({c.stage, c.kind, last[w], input_cell});
          last[w] = number;
          if (c.kind == action_kind::forward) forwards[index(c.stage * M + c.micro_batch)] = number;
          if (back) backwards[index(c.stage * M + c.micro_batch)] = number;
        }
    }
    ends_.resize(cells_.size());
  }

  static std::size_t at(kind k, int stage) { return index(kinds * stage + k); }
  double time_of(const table_cell& c) const {
    switch (c.kind_of_action) {
      case action_kind::forward:
        return times_[at(forward, c.stage)];
      case action_kind::backward:
        return times_[at(input, c.stage)] + times_[at(parameters, c.stage)];
      case action_kind::backward_input:
        return times_[at(input, c.stage)];
      default:
        return times_[at(parameters, c.stage)];
    }
  }

  void add_times(double weight) {
    for (int s = 0; s < stages_; ++s)
      for (int l = cut_[index(s)]; l < cut_[index(s + 1)]; ++l) {
        const layer_cost& c = costs_.of(s)[l];
        times_[at(forward, s)] += weight * static_cast<double>(c.forward);
        times_[at(input, s)] += weight * static_cast<double>(c.backward_input);
        times_[at(parameters, s)] += weight * static_cast<double>(c.backward_parameters);
      }
  }
  void add_longest_path(double weight) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const table_cell& c = cells_[i];
      double begin = c.worker_cell < 0 ? 0 : ends_[index(c.worker_cell)];
      if (c.input_cell >= 0) begin = (std::max)(begin, ends_[index(c.input_cell)]);
      ends_[i] = begin + time_of(c);
      if (ends_[i] > ends_[last]) last = i;
    }
    for (int i = static_cast<int>(last); i >= 0;) {
      const table_cell& c = cells_[index(i)];
      if (c.kind_of_action == action_kind::forward) visits_[at(forward, c.stage)] += weight;
      if (c.kind_of_action == action_kind::backward || c.kind_of_action == action_kind::backward_input)
        visits_[at(input, c.stage)] += weight;
      if (c.kind_of_action == action_kind::backward || c.kind_of_action == action_kind::backward_parameters)
        visits_[at(parameters, c.stage)] += weight;
      const int worker_cell = c.worker_cell, input_cell = c.input_cell;
      i = input_cell >= 0 && (worker_cell < 0 || ends_[index(input_cell)] > ends_[index(worker_cell)]) ? input_cell
                                                                                                       : worker_cell;
    }
  }
  /// The cut for which the sum of paths is shortest, and its length.
  double shortest_cut() {
    const int L = costs_.layers, S = stages_;
    const auto duration = [&](int s, int l) {
      const layer_cost& c = costs_.of(s)[l];
      return visits_[at(forward, s)] * static_cast<double>(c.forward) +
             visits_[at(input, s)] * static_cast<double>(c.backward_input) +
             visits_[at(parameters, s)] * static_cast<double>(c.backward_parameters);
    };
    // shortest_[s][l]: for the layers up to l, with l in stage s; begins_[s][l]: whether s begins with l.
    shortest_.assign(index(S * L), 0), begins_.assign(index(S * L), false);
    for (int s = 0; s < S; ++s)
      for (int l = s; l <= L - S + s; ++l) {
        const double stays = l > s ? shortest_[index(s * L + l - 1)] : 0,
                     begins = s > 0 ? shortest_[index((s - 1) * L + l - 1)] : 0;
        const bool starts = l == s || (s > 0 && begins < stays);
        begins_[index(s * L + l)] = starts;
        shortest_[index(s * L + l)] = (starts ? begins : stays) + duration(s, l);
      }
    for (int s = S - 1, l = L - 1; s > 0; --s, --l) {
      while (!begins_[index(s * L + l)]) --l;
      cut_[index(s)] = l;
    }
    return shortest_[index(S * L - 1)];
  }

  const stage_costs& costs_;
  int stages_;
  std::vector<table_cell> cells_;
  std::vector<double> ends_;            // [cell]
  std::vector<double> times_, visits_;  // [stage][kind]: sums over the rounds
  std::vector<int> cut_;
  std::vector<double> shortest_;
  std::vector<bool> begins_;
};

}  // namespace gpipe::detail
