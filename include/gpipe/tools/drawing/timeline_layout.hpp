#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/tools/drawing/canvas.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpipe {

/// The rows of a timeline. `automatic`: of stages, and above them of workers if a worker has several stages.
enum class timeline_rows : std::uint8_t { automatic, stages, workers };

struct timeline_options {
  std::string title = {};  ///< empty: a description of the drawing
  timeline_rows rows = timeline_rows::automatic;
  int width = 0;  ///< in pixels; 0: 1200, or wider until most actions have a visible width, at most 2600
  /// The part of the time that is drawn, in nanoseconds since the first action.
  std::int64_t from_ns = 0, to_ns = INT64_MAX;
};

namespace detail {

// change: the look of an action
inline bool is_drawn(const trace_event& e) { return look_of(e.kind).shown && e.stage >= 0; }

/// The rows of a drawing of events, from top to bottom: of workers, then of stages, each replica after replica.
class timeline_row_list {
 public:
  GPIPE_COLD timeline_row_list(std::span<const trace_event> events, timeline_rows rows) {
    for (const trace_event& e : events) {
      if (!is_drawn(e)) continue;
      replicas_ = (std::max)(replicas_, e.replica + 1);
      stage_count_ = (std::max)(stage_count_, e.stage + 1);
      if (e.worker < 0) continue;
      worker_count_ = (std::max)(worker_count_, e.worker + 1);
      stages_[{e.replica, e.worker}].insert(e.stage);
    }
    for (const auto& [worker, stages] : stages_) max_stages_ = (std::max)(max_stages_, stages.size());
    workers_ =
        worker_count_ > 0 && (rows == timeline_rows::workers || (rows == timeline_rows::automatic && max_stages_ > 1));
    stage_rows_ = !workers_ || rows != timeline_rows::workers;
  }

  int size() const { return worker_rows() + (stage_rows_ ? replicas_ * stage_count_ : 0); }
  bool has_workers() const { return workers_; }
  /// Whether the row is for a stage whose worker also has a row.
  bool is_part(int row) const { return workers_ && row >= worker_rows(); }

  /// "stage 3", or with several replicas "1: stage 3".
  GPIPE_COLD std::string name(int row) const {
    const bool is_worker = row < worker_rows();
    const int rows_per_replica = is_worker ? worker_count_ : stage_count_,
              position = is_worker ? row : row - worker_rows();
    return (replicas_ > 1 ? std::to_string(position / rows_per_replica) + ": " : "") +
           (is_worker ? "worker " : "stage ") + std::to_string(position % rows_per_replica);
  }

  /// Calls f(row, top) for each row that shows the event. `top`, from 0 up to 1/2, is the part of the lane above its
  /// box: the boxes of a worker's later stage are lower.
  template <class F>
  void each_row(const trace_event& e, F&& f) const {
    if (workers_ && e.worker >= 0) {
      const std::set<int>& stages = stages_.at({e.replica, e.worker});
      const auto earlier_stages = std::distance(stages.begin(), stages.find(e.stage));
      f(e.replica * worker_count_ + e.worker,
        0.5 * static_cast<double>(earlier_stages) / static_cast<double>(max_stages_));
    }
    if (stage_rows_) f(worker_rows() + e.replica * stage_count_ + e.stage, 0.0);
  }

 private:
  int worker_rows() const { return workers_ ? replicas_ * worker_count_ : 0; }

  std::map<std::pair<int, int>, std::set<int>> stages_;  // of each worker of each replica
  int replicas_ = 1, stage_count_ = 1, worker_count_ = 0;
  std::size_t max_stages_ = 1;  // stages of one worker
  bool workers_ = false, stage_rows_ = true;
};

/// The widths of the parts of a timeline, in pixels, and the time that it shows. Time in which no thread ran, because
/// others had the cores, is drawn short: it is no part of the schedule.
///
///     running          ______        ___________         of any worker
///     drawn            ______  |/|   ___________         a cut: its time has the width of a mark
class timeline_scale {
 public:
  static constexpr double left = 76;
  /// Time that is drawn short.
  struct time_cut {
    std::int64_t begin, end;
  };

  GPIPE_COLD timeline_scale(std::span<const trace_event> events, const timeline_options& options) {
    std::vector<std::int64_t> lengths;
    std::int64_t begin = INT64_MAX, end = INT64_MIN;
    for (const trace_event& e : events) {
      if (!is_drawn(e)) continue;
      begin = (std::min)(begin, e.begin_ns);
      end = (std::max)(end, e.end_ns);
      if (e.micro_batch >= 0) lengths.push_back(e.end_ns - e.begin_ns - e.waited_ns);
      longest_stop_ = (std::max)(longest_stop_, e.not_running_ns);
    }
    if (begin >= end) end = (begin = 0) + 1'000'000;
    zero_ = begin;
    begin_ = begin + std::clamp(options.from_ns, std::int64_t{0}, end - begin - 1);
    end_ = begin + std::clamp(options.to_ns, begin_ - begin + 1, end - begin);
    find_cuts(events);
    double wanted = 0;
    if (!lengths.empty()) {
      const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
      std::nth_element(lengths.begin(), middle, lengths.end());
      wanted = visible * drawn_ / static_cast<double>((std::max)(std::int64_t{1}, *middle));
    }
    plot_ = options.width > 0 ? (std::max)(100.0, options.width - left - right()) : std::clamp(wanted, 1040.0, widest);
  }

  double plot() const { return plot_; }
  double end() const { return left + plot_; }
  double right() const { return stops() ? 190 : 84; }
  /// A thread was not running for a time that can be seen.
  bool stops() const { return 1000 * static_cast<double>(longest_stop_) >= span(); }
  double span() const { return static_cast<double>(end_ - begin_); }
  bool shows(const trace_event& e) const {
    if (!is_drawn(e) || e.begin_ns > end_ || e.end_ns < begin_) return false;
    return e.begin_ns == e.end_ns || (e.begin_ns < end_ && e.end_ns > begin_);
  }
  double at(std::int64_t ns) const { return left + drawn_before(within(ns)) / drawn_ * plot_; }
  const std::vector<time_cut>& cuts() const { return cuts_; }
  bool is_cut(std::int64_t ns) const {
    return std::any_of(cuts_.begin(), cuts_.end(), [&](const time_cut& c) { return ns > c.begin && ns < c.end; });
  }
  /// Milliseconds that are drawn in their full width.
  double drawn_ms() const { return drawn_ * 1e-6; }
  /// The time this number of milliseconds after the first action.
  std::int64_t from_first(double ms) const { return zero_ + static_cast<std::int64_t>(ms * 1e6 + 0.5); }
  /// The part of a time that is drawn.
  double shown(std::int64_t begin, std::int64_t end) const { return static_cast<double>(within(end) - within(begin)); }
  /// Milliseconds since the first action.
  double ms(std::int64_t ns) const { return static_cast<double>(ns - zero_) * 1e-6; }
  double from_ms() const { return ms(begin_); }
  double to_ms() const { return ms(end_); }

 private:
  static constexpr double visible = 6, widest = 2400;  // an action, and the part with actions
  static constexpr double mark = 0.012;                // a cut's share of the other time
  std::int64_t within(std::int64_t ns) const { return std::clamp(ns, begin_, end_); }

  /// The times between runs of any thread, if a thread was off its core in them, and if they are longer than a tenth
  /// of the time in which a thread ran.
  GPIPE_COLD void find_cuts(std::span<const trace_event> events) {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs, stops;
    for (const trace_event& e : events) {
      if (!is_drawn(e)) continue;
      const std::int64_t begin = within(e.begin_ns + e.waited_ns), end = within(e.end_ns),
                         stopped = (std::max)(begin, within(e.end_ns - e.not_running_ns));
      runs.emplace_back(begin, stopped);
      if (stopped < end) stops.emplace_back(stopped, end);
    }
    std::sort(runs.begin(), runs.end());
    runs.emplace_back(end_, end_);
    std::int64_t ran = begin_, total = 0, cut = 0;
    std::vector<time_cut> gaps;
    for (const auto& [begin, end] : runs) {
      if (begin > ran) gaps.push_back({ran, begin});
      total += (std::max)(std::int64_t{0}, end - (std::max)(begin, ran));
      ran = (std::max)(ran, end);
    }
    for (const time_cut& gap : gaps)
      if (10 * (gap.end - gap.begin) > total && std::any_of(stops.begin(), stops.end(), [&](const auto& s) {
            return s.first < gap.end && s.second > gap.begin;
          }))
        cuts_.push_back(gap), cut += gap.end - gap.begin;
    if (static_cast<double>(cut) > 0.98 * span()) cuts_.clear(), cut = 0;  // actions that sleep are the step
    const double uncut = span() - static_cast<double>(cut);
    cut_width_ = mark * uncut;
    drawn_ = uncut + cut_width_ * static_cast<double>(cuts_.size());
  }
  /// The time before `ns`, with each cut as long as its mark.
  double drawn_before(std::int64_t ns) const {
    double drawn = static_cast<double>(ns - begin_);
    for (const time_cut& c : cuts_) {
      if (ns <= c.begin) break;
      const double passed = static_cast<double>((std::min)(ns, c.end) - c.begin);
      drawn += passed / static_cast<double>(c.end - c.begin) * cut_width_ - passed;
    }
    return drawn;
  }

  std::int64_t zero_ = 0, begin_ = 0, end_ = 0, longest_stop_ = 0;
  std::vector<time_cut> cuts_;
  double cut_width_ = 0, drawn_ = 0, plot_ = 0;
};

}  // namespace detail

}  // namespace gpipe
