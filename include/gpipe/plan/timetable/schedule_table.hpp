#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>
#include <gpipe/plan/schedule/custom.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/text_cell.hpp>

namespace gpipe {

/// A schedule at one (S, M) that is made at run time, from a text in PyTorch's format of schedule files: one row per
/// worker, cells separated by commas.
///
///     0F0,0F1,    ,0B0,   ,0B1        a stage, F forward, B backward or its parts I and W, and a micro-batch;
///     ,1F0,1B0,1F1,1B1                nothing while idle
///
/// A row is the order of its worker: each cell gets the first tick in which its inputs are there, so columns need not
/// agree between rows. `(0F1;3B0)OVERLAP_F_B` is two cells. Cells that move data or parameters (SEND_F, RECV_B,
/// UNSHARD, REDUCE_GRAD ...) are skipped: a plan makes its own transfers. The table is checked like any other, and an
/// error names the first wrong cell by row and column, counted from 1.
class schedule_table {
 public:
  bool trains = true;

  /// `name` is the schedule's name and, in errors, the file's.
  schedule_table(std::string name, std::string_view text);

  int stages() const { return static_cast<int>(worker_of_.size()); }
  int micro_batches() const { return micro_batches_; }

  // The members of a schedule.
  const char* name() const { return name_.c_str(); }
  bool admits(int S, int M) const { return S == stages() && M == micro_batches_; }
  int workers(int) const { return static_cast<int>(rows_.size()); }
  int worker_of(int, int stage) const { return worker_of_[detail::index(stage)]; }
  int ticks(int, int) const { return ticks_; }
  int in_flight(int, int, int stage) const { return in_flight_[detail::index(stage)]; }
  cell at(int, int, int worker, int tick) const {
    const std::vector<entry>& row = rows_[detail::index(worker)];
    const auto found = std::lower_bound(row.begin(), row.end(), tick, [](const entry& e, int t) { return e.tick < t; });
    return found != row.end() && found->tick == tick ? found->action : cell{};
  }

 private:
  /// A cell of the text.
  struct entry {
    cell action;
    int column = 0;
    int tick = -1;
  };

  void read(std::string_view text);
  void count_stages();
  void set_ticks();
  void count_in_flight();
  void check() const;

  std::string name_;
  int micro_batches_ = 0, ticks_ = 0;
  std::vector<std::vector<entry>> rows_;  ///< a row has its cells only, with ticks that rise
  std::vector<int> worker_of_, in_flight_;
};

static_assert(scheduler<schedule_table>);

/// A schedule's table as a text that `schedule_table` reads. Its columns are the ticks.
template <scheduler Schedule>
GPIPE_COLD std::string schedule_text(const Schedule& schedule, int stages, int micro_batches) {
  detail::require_admitted(schedule, stages, micro_batches);
  std::string text;
  for (int w = 0; w < schedule.workers(stages); ++w) {
    for (int t = 0; t < schedule.ticks(stages, micro_batches); ++t) {
      if (t > 0) text += ',';
      const cell c = schedule.at(stages, micro_batches, w, t);
      if (c.kind != action_kind::idle) text += detail::label_of(c, true).text();
    }
    text += '\n';
  }
  return text;
}

GPIPE_COLD inline void schedule_table::read(std::string_view text) {
  for (const auto& row : detail::read_schedule_text(name_, text)) {
    auto& made = rows_.emplace_back();
    for (const detail::text_cell& c : row) made.push_back({c.action, c.column});
  }
}

GPIPE_COLD inline void schedule_table::count_stages() {
  int cells = 0, stages = 0;
  trains = false;
  for (const auto& row : rows_)
    for (const entry& e : row) {
      ++cells;
      stages = (std::max)(stages, e.action.stage + 1);
      micro_batches_ = (std::max)(micro_batches_, e.action.micro_batch + 1);
      trains = trains || e.action.kind != action_kind::forward;
    }
  if (std::int64_t{stages} * micro_batches_ > cells)  // before memory for each of them is taken
    for (std::size_t w = 0; w < rows_.size(); ++w)
      for (const entry& e : rows_[w])
        if ((std::max)(e.action.stage, e.action.micro_batch) + 1 == (std::max)(stages, micro_batches_))
          detail::bad_cell(name_, static_cast<int>(w), e.column,
                           {" is ", detail::label_of(e.action, true).text(), ", and the table has ", cells,
                            " cells for ", stages, " stages and ", micro_batches_, " micro-batches"},
                           {"count stages and micro-batches from 0, and write every one"});
  worker_of_.assign(detail::index(stages), -1);
  for (std::size_t w = 0; w < rows_.size(); ++w)
    for (const entry& e : rows_[w]) {
      int& worker = worker_of_[detail::index(e.action.stage)];
      if (worker >= 0 && worker != static_cast<int>(w))
        detail::bad_cell(name_, static_cast<int>(w), e.column,
                         {" is ", detail::label_of(e.action, true).text(), ", and stage ", e.action.stage,
                          " is in row ", worker + 1, ", too"},
                         {"keep all cells of a stage in one row"});
      worker = static_cast<int>(w);
    }
  for (std::size_t s = 0; s < worker_of_.size(); ++s)
    if (worker_of_[s] < 0)
      detail::throw_error({"stage ", s, " has no cell, and stage ", stages - 1, " has"},
                          {"count stages from 0, and write every one"}, detail::location{.file = name_});
}

GPIPE_COLD inline void schedule_table::set_ticks() {
  // A value is an activation, or the gradient for a stage's input: [gradients][stage][micro-batch].
  const auto value = [&](bool back, int stage, int m) {
    return (detail::index(back) * worker_of_.size() + detail::index(stage)) * detail::index(micro_batches_) +
           detail::index(m);
  };
  const auto made_by = [&](const cell& c) { return value(c.kind != action_kind::forward, c.stage, c.micro_batch); };
  const auto needed_by = [&](const cell& c) -> std::optional<std::size_t> {
    const bool forward = c.kind == action_kind::forward, parameters = c.kind == action_kind::backward_parameters;
    if (parameters || (forward ? c.stage == 0 : c.stage + 1 == stages())) return std::nullopt;
    return value(!forward, c.stage + (forward ? -1 : 1), c.micro_batch);
  };
  constexpr int no_row = -1;
  const std::size_t values = 2 * worker_of_.size() * detail::index(micro_batches_);
  std::vector<int> made_in(values, -1);      // a tick; -1: not yet
  std::vector<int> waiting(values, no_row);  // the row whose next cell needs the value: a stage is in one row
  std::vector<std::size_t> next(rows_.size());
  std::vector<std::size_t> ready(rows_.size());
  std::iota(ready.begin(), ready.end(), std::size_t{0});
  while (!ready.empty()) {
    const std::size_t w = ready.back();
    ready.pop_back();
    for (; next[w] < rows_[w].size(); ++next[w]) {
      entry& e = rows_[w][next[w]];
      e.tick = next[w] == 0 ? 0 : rows_[w][next[w] - 1].tick + 1;
      if (const auto input = needed_by(e.action)) {
        if (made_in[*input] < 0) {
          waiting[*input] = static_cast<int>(w);
          break;
        }
        e.tick = (std::max)(e.tick, made_in[*input] + 1);
      }
      ticks_ = (std::max)(ticks_, e.tick + 1);
      if (e.action.kind == action_kind::backward_parameters) continue;
      const std::size_t made = made_by(e.action);
      if (made_in[made] >= 0) continue;
      made_in[made] = e.tick;
      if (const int waiting_row = std::exchange(waiting[made], no_row); waiting_row != no_row)
        ready.push_back(detail::index(waiting_row));
    }
  }
  // The first row that waits for a value that no row makes; else the first row in a cycle.
  std::vector<bool> written(values);
  for (const auto& row : rows_)
    for (const entry& e : row)
      if (e.action.kind != action_kind::backward_parameters) written[made_by(e.action)] = true;
  std::optional<std::size_t> wrong;
  for (std::size_t w = rows_.size(); w-- > 0;)
    if (next[w] < rows_[w].size() && (!wrong || !written[*needed_by(rows_[w][next[w]].action)] ||
                                      written[*needed_by(rows_[*wrong][next[*wrong]].action)]))
      wrong = w;
  if (!wrong) return;
  const entry& e = rows_[*wrong][next[*wrong]];
  const bool forward = e.action.kind == action_kind::forward;
  const cell needs{forward ? action_kind::forward : action_kind::backward, e.action.stage + (forward ? -1 : 1),
                   e.action.micro_batch};
  const bool somewhere = written[*needed_by(e.action)];
  detail::bad_cell(
      name_, static_cast<int>(*wrong), e.column,
      {" is ", detail::label_of(e.action, true).text(), somewhere ? ", which waits for ever for " : ", which needs ",
       detail::label_of(needs, true).text(), somewhere ? "" : ", which is in no row"},
      {somewhere ? "order the rows so that each cell's input comes before it"
                 : "write every stage and micro-batch forward and backward once"});
}

GPIPE_COLD inline void schedule_table::count_in_flight() {
  in_flight_.assign(worker_of_.size(), 1);
  std::vector<int> held(worker_of_.size(), 0);
  for (const auto& row : rows_)
    for (const entry& e : row) {
      int& held_count = held[detail::index(e.action.stage)];
      held_count += e.action.kind == action_kind::forward;
      if (trains)
        in_flight_[detail::index(e.action.stage)] = (std::max)(in_flight_[detail::index(e.action.stage)], held_count);
      held_count -= e.action.kind == action_kind::backward || e.action.kind == action_kind::backward_parameters;
    }
}

GPIPE_COLD inline void schedule_table::check() const {
  std::vector<stage_link> chain;
  for (int s = 0; s + 1 < stages(); ++s) chain.push_back({s, s + 1});
  const check_result found =
      check_timetable(*this, stages(), micro_batches_, chain.data(), static_cast<int>(chain.size()));
  if (found.ok()) return;
  const detail::label found_at = detail::label_of(found.action, true);
  const std::string_view label_text = found_at.text();
  if (found.worker < 0 || found.worker >= static_cast<int>(rows_.size()) || rows_[detail::index(found.worker)].empty())
    detail::throw_error({"row ", found.worker + 1, " has no cell"}, {"remove it, or give it a stage"},
                        detail::location{.file = name_, .line = found.worker + 1});
  if (found.error == detail::fault::missing)
    detail::throw_error({label_text, " is missing"}, {"write every stage and micro-batch forward and backward once"},
                        detail::location{.file = name_, .line = found.worker + 1});
  int column = 0;
  for (const entry& e : rows_[detail::index(found.worker)])
    if (e.tick == found.position) column = e.column;
  detail::bad_cell(
      name_, found.worker, column,
      {" is ", label_text,
       found.error == detail::fault::repeated     ? ", for the second time"
       : found.error == detail::fault::retirement ? ", and parameter gradients are not in the order 0, 1, 2, ..."
                                                  : ", before what it needs"},
      {found.error == detail::fault::retirement ? "number the micro-batches in the order of their backwards"
                                                : "correct the order of the row"});
}

GPIPE_COLD inline schedule_table::schedule_table(std::string name, std::string_view text) : name_(std::move(name)) {
  read(text);
  count_stages();
  set_ticks();
  count_in_flight();
  check();
}

}  // namespace gpipe
