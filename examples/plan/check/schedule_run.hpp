#pragma once

// Runs a table of a schedule that others made: the faults in it, and what a step takes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>
#include <gpipe/plan/timetable/text_cell.hpp>

namespace example {

using namespace gpipe;

/// A fault of a table, and its place, from 1; column 0: the whole row, row 0: the whole table.
struct table_fault {
  int row = 0, column = 0;
  std::string what;
};

/// The cells of a table, each with what it needs, and the step that they make. Unlike the library's schedules the table
/// may give micro-batches any order: so may PyTorch's.
class schedule_run {
 public:
  schedule_run(std::string file, std::string_view text)
      : file_(std::move(file)), rows_(gpipe::detail::read_schedule_text(file_, text)) {
    count_all();
    find_places();
    for (int s = 0; s < stages_; ++s) check_stage(s);
  }

  int stages() const { return stages_; }
  int micro_batches() const { return micro_batches_; }
  int ranks() const { return static_cast<int>(rows_.size()); }
  bool trains() const { return trains_; }
  const std::vector<table_fault>& faults() const { return faults_; }
  /// The stages of a rank.
  std::vector<int> stages_of(int rank) const {
    std::vector<int> found;
    for (int s = 0; s < stages_; ++s)
      if (rank_of_[at(s)] == rank) found.push_back(s);
    return found;
  }

  /// The work and the memory of a rank in a step.
  struct rank_step {
    std::int64_t busy = 0, peak_bytes = 0;
    int peak = 0;  ///< most pairs of a stage and a micro-batch whose forward ran and whose backward has not ended
  };
  struct step {
    std::int64_t makespan = 0;
    std::vector<rank_step> ranks;
    double idle() const {
      double busy = 0;
      for (const rank_step& r : ranks) busy += static_cast<double>(r.busy);
      const double whole = static_cast<double>(makespan) * static_cast<double>(ranks.size());
      return whole > 0 ? 1 - busy / whole : 0;
    }
  };

  /// Each rank runs its row from left to right, each cell as soon as its input is there; transfers take no time.
  /// `bytes[s]`: of one micro-batch that stage s keeps. Notes a deadlock as a fault. Throws for times that overflow.
  step run(const std::vector<stage_times>& times, const std::vector<std::int64_t>& bytes) {
    gpipe::detail::require_times({.stages = stages_, .micro_batches = micro_batches_, .times = times.data()});
    std::vector<std::size_t> next(rows_.size());
    std::vector<std::int64_t> now(rows_.size());
    std::map<key, std::int64_t> ends;
    step made;
    made.ranks.resize(rows_.size());
    std::vector<int> held(rows_.size());
    std::vector<std::int64_t> held_bytes(rows_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < rows_.size(); ++r)
        for (; next[r] < rows_[r].size(); ++next[r], moved = true) {
          const cell& c = rows_[r][next[r]].action;
          bool ready = true;
          for (const key& k : needs(c)) {
            const auto end = ends.find(k);
            ready = ready && end != ends.end();
            if (ready) now[r] = std::max(now[r], end->second);
          }
          if (!ready) break;
          const std::int64_t takes = time_of(c.kind, times[at(c.stage)]);
          now[r] += takes;
          made.ranks[r].busy += takes;
          made.makespan = std::max(made.makespan, now[r]);
          ends.emplace(key_of(c), now[r]);
          if (c.kind == action_kind::forward && trains_) {
            held_bytes[r] = gpipe::detail::summed(held_bytes[r], bytes[at(c.stage)]);
            made.ranks[r].peak = std::max(made.ranks[r].peak, ++held[r]);
            made.ranks[r].peak_bytes = std::max(made.ranks[r].peak_bytes, held_bytes[r]);
          } else if (c.kind == action_kind::backward || c.kind == action_kind::backward_parameters) {
            held_bytes[r] -= bytes[at(c.stage)];
            --held[r];
          }
        }
    }
    note_deadlock(next, ends);
    return made;
  }

 private:
  using key = std::tuple<action_kind, int, int>;  // backward_input is that of backward, too
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static std::string text_of(const cell& c) { return std::string(gpipe::detail::label_of(c, true).text()); }
  static key key_of(const cell& c) {
    return {c.kind == action_kind::backward ? action_kind::backward_input : c.kind, c.stage, c.micro_batch};
  }
  static std::int64_t time_of(action_kind kind, const stage_times& t) {
    return kind == action_kind::forward          ? t.forward
           : kind == action_kind::backward_input ? t.backward_input
           : kind == action_kind::backward       ? t.backward_input + t.backward_parameters
                                                 : t.backward_parameters;
  }

  /// The cells that must have ended before one begins.
  std::vector<key> needs(const cell& c) const {
    const int s = c.stage, m = c.micro_batch;
    if (c.kind == action_kind::backward_parameters) return {{action_kind::backward_input, s, m}};
    std::vector<key> all;
    if (c.kind == action_kind::forward) {
      if (s > 0) all.emplace_back(action_kind::forward, s - 1, m);
    } else {
      all.emplace_back(action_kind::forward, s, m);
      if (s + 1 < stages_) all.emplace_back(action_kind::backward_input, s + 1, m);
    }
    return all;
  }

  void note(int row, int column, std::string what) { faults_.push_back({row + 1, column + 1, std::move(what)}); }

  void count_all() {
    std::int64_t cells = 0;
    for (const auto& row : rows_)
      for (const auto& c : row) {
        ++cells;
        stages_ = std::max(stages_, c.action.stage + 1);
        micro_batches_ = std::max(micro_batches_, c.action.micro_batch + 1);
        trains_ = trains_ || c.action.kind != action_kind::forward;
      }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (const auto& c : rows_[r])  // before every missing cell of a mistyped number is listed
        if (std::int64_t{stages_} * micro_batches_ > 2 * cells &&
            std::max(c.action.stage, c.action.micro_batch) + 1 == std::max(stages_, micro_batches_))
          gpipe::detail::bad_cell(file_, static_cast<int>(r), c.column,
                                  {" is ", text_of(c.action), ", and the table has ", cells, " cells for ", stages_,
                                   " stages and ", micro_batches_, " micro-batches"},
                                  {"count stages and micro-batches from 0, and write every one"});
    if (cells == 0) throw error("the table has no cell", "write a row of cells for each rank", {.file = file_});
  }

  void find_places() {
    rank_of_.assign(at(stages_), -1);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r].empty()) faults_.push_back({static_cast<int>(r) + 1, 0, "the rank has no cell"});
      for (std::size_t i = 0; i < rows_[r].size(); ++i) {
        const auto& c = rows_[r][i];
        const int row = static_cast<int>(r);
        int& rank = rank_of_[at(c.action.stage)];
        if (rank < 0) rank = row;
        if (rank != row)
          note(
              row, c.column,
              gpipe::detail::concat({text_of(c.action), ": stage ", c.action.stage, " is in row ", rank + 1, ", too"}));
        const auto [found, first] = place_of_.emplace(key_of(c.action), std::pair{r, i});
        if (!first) {
          const auto [other_row, other] = found->second;
          note(row, c.column,
               gpipe::detail::concat({text_of(c.action), " for the second time, after row ", other_row + 1, ", column ",
                                      rows_[other_row][other].column + 1}));
        } else if (c.action.kind == action_kind::backward) {
          place_of_.emplace(key{action_kind::backward_parameters, c.action.stage, c.action.micro_batch},
                            std::pair{r, i});
        }
      }
    }
  }

  void check_stage(int s) {
    const int row = rank_of_[at(s)];
    const auto missing = [&](action_kind kind, int m) {
      if (place_of_.contains({kind, s, m})) return false;
      const bool whole = kind == action_kind::backward_input;
      const std::string label = text_of({whole ? action_kind::backward : kind, s, m});
      faults_.push_back({row < 0 ? 0 : row + 1, 0, label + " is missing"});
      return true;
    };
    for (int m = 0; m < micro_batches_; ++m) {
      missing(action_kind::forward, m);
      if (trains_ && !missing(action_kind::backward_input, m)) missing(action_kind::backward_parameters, m);
    }
  }

  /// The cell that is the first of its rank that cannot run, and what it waits for.
  void note_deadlock(const std::vector<std::size_t>& next, const std::map<key, std::int64_t>& ends) {
    std::size_t r = 0;
    while (r < rows_.size() && next[r] == rows_[r].size()) ++r;
    if (r == rows_.size()) return;
    std::vector<bool> seen(rows_.size());
    std::string chain;
    for (;;) {
      const auto& c = rows_[r][next[r]];
      key waits{};
      for (const key& k : needs(c.action))
        if (!ends.contains(k)) waits = k;
      const auto [kind, stage, m] = waits;
      const auto found = place_of_.find(waits);
      const bool whole = kind == action_kind::backward_input &&
                         (found == place_of_.end() ||
                          rows_[found->second.first][found->second.second].action.kind == action_kind::backward);
      const std::string needed = text_of({whole ? action_kind::backward : kind, stage, m});
      chain += gpipe::detail::concat({chain.empty() ? "" : "; ", "rank ", r, " stops before ", text_of(c.action),
                                      " (row ", r + 1, ", column ", c.column + 1, "), which waits for ", needed});
      seen[r] = true;
      if (found == place_of_.end()) {
        chain += ", which is in no row";
        break;
      }
      const auto [row, cell_index] = found->second;
      if (seen[row]) {
        chain += gpipe::detail::concat({" of rank ", row, row == r ? ", later in the same row" : ", which stops, too"});
        break;
      }
      r = row;
    }
    faults_.push_back({0, 0, "deadlock: " + chain});
  }

  std::string file_;
  std::vector<std::vector<gpipe::detail::text_cell>> rows_;
  int stages_ = 0, micro_batches_ = 0;
  bool trains_ = false;
  std::vector<int> rank_of_;                                     // of each stage; -1: in no row
  std::map<key, std::pair<std::size_t, std::size_t>> place_of_;  // the row, and the cell's index in it
  std::vector<table_fault> faults_;
};

}  // namespace example
