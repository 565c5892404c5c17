#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/tools/drawing/canvas.hpp>

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

/// 1, 2 or 5 times a power of ten, such that at most `count` steps span `range`.
GPIPE_COLD inline double round_step(double range, double count) {
  const double power = std::pow(10, std::floor(std::log10(range / count)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= count) return factor * power;
  return 10 * power;
}

}  // namespace detail

/// Draws a step (SVG): a row per stage, replica after replica, and a row per worker; a hue per micro-batch; time from
/// left to right. A stage waits where its row shows the background. Transfers and idle events are not drawn. The wait
/// of an action is drawn before its box, and the end of a box is hatched grey for the time in which the worker's thread
/// was not running during the action, because others had the cores or because the action slept. Time in which no thread
/// ran is cut short and marked on the axis. Also draws a timetable that was never run: give its events synthetic times.
GPIPE_COLD inline void write_timeline(std::ostream& out, std::span<const trace_event> events,
                                      const timeline_options& options = {}) {
  const detail::timeline_row_list rows(events, options.rows);
  const detail::timeline_scale scale(events, options);
  const std::string title = options.title.empty() ? "one step" : options.title;
  std::vector<action_kind> kinds;
  std::vector<double> works(static_cast<std::size_t>(rows.size())), stops(works.size());
  for (const trace_event& e : events) {
    if (!scale.shows(e)) continue;
    if (std::find(kinds.begin(), kinds.end(), e.kind) == kinds.end()) kinds.push_back(e.kind);
    rows.each_row(e, [&](int row, double) {
      const double stopped = scale.shown(e.end_ns - e.not_running_ns, e.end_ns);
      works[static_cast<std::size_t>(row)] += scale.shown(e.begin_ns + e.waited_ns, e.end_ns) - stopped;
      stops[static_cast<std::size_t>(row)] += stopped;
    });
  }
  std::sort(kinds.begin(), kinds.end());

  const double top = 74, lane = std::clamp(640.0 / rows.size(), 12.0, 34.0), pitch = lane + (lane < 20 ? 3 : 6);
  const auto top_of = [&](int row) { return top + row * pitch + (rows.is_part(row) ? 10 : 0); };
  const double bottom = top_of(rows.size() - 1) + lane;
  detail::canvas drawing(out, scale.end() + scale.right(), bottom + 52, title);
  drawing.text("head", 20, 30, title);
  double x = scale.left;
  const auto explain = [&](const std::string& words) {
    drawing.text("faint", x + 24, 54.5, words);
    x += 24 + 6.3 * static_cast<double>(words.size()) + 20;
  };
  for (const action_kind kind : kinds) {
    drawing.action("key", kind, 0, x, 44, 18, 13, "");
    explain(name_of(kind));
  }
  if (scale.stops()) {
    drawing.not_running("key", x, 44, 18, 13, "");
    explain("not running");
  }
  drawing.box("lane", x, 44, 18, 13, 2);
  out << "/>\n";
  explain("waiting");
  x -= 24;
  explain("number and hue: micro-batch");
  x -= 24;
  if (rows.has_workers()) explain("lower: a later stage of the worker");

  for (int row = 0; row < rows.size(); ++row) {
    const double y = top_of(row), words = y + lane / 2 + 4;
    drawing.box("lane", scale.left, y, scale.plot(), lane, 3);
    out << "/>\n";
    drawing.text("row", scale.left - 10, words, rows.name(row));
    const auto percent = [&](double ns) { return detail::fixed(100 * ns / scale.span(), 0) + " %"; };
    const double worked = works[static_cast<std::size_t>(row)], stopped = stops[static_cast<std::size_t>(row)];
    std::string shares = rows.is_part(row) ? "works " + percent(worked)
                                           : "waits " + percent((std::max)(0.0, scale.span() - worked - stopped));
    if (percent(stopped) != percent(0)) shares += ", not running " + percent(stopped);
    drawing.text("faint", scale.end() + 10, words, shares);
  }

  const double step = detail::round_step(scale.drawn_ms(), scale.plot() / 90);
  const int decimals = step >= 1 ? 0 : (std::min)(6, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  for (double i = std::ceil((std::max)(0.0, scale.from_ms() / step - 1e-6)); i * step <= scale.to_ms() + 1e-6 * step;
       ++i) {
    const std::int64_t ns = scale.from_first(i * step);
    if (scale.is_cut(ns)) continue;
    const double tick = scale.at(ns);
    drawing.line(tick, bottom + 2, bottom + 12);
    drawing.text("tick", tick, bottom + 26, detail::fixed(i * step, decimals));
  }
  drawing.text("faint", scale.end() + 28, bottom + 26, "ms");
  for (const auto& [cut_begin, cut_end] : scale.cuts()) {
    drawing.line(scale.at(cut_begin), bottom + 2, bottom + 12);
    drawing.line(scale.at(cut_end), bottom + 2, bottom + 12);
    drawing.text("cut", (scale.at(cut_begin) + scale.at(cut_end)) / 2, bottom + 40,
                 "cut " + detail::fixed(static_cast<double>(cut_end - cut_begin) * 1e-6, decimals) + " ms");
  }

  for (const trace_event& e : events) {
    if (!scale.shows(e)) continue;
    const auto ms = [&](std::int64_t ns) { return detail::fixed(scale.ms(ns), 3); };
    const std::string number = e.micro_batch < 0 ? "" : std::to_string(e.micro_batch);
    const std::string action = std::string(name_of(e.kind)) + (number.empty() ? "" : " " + number);
    const double left = scale.at(e.begin_ns + e.waited_ns), right = scale.at(e.end_ns),
                 gap = right - left > 4 ? 0.8 : 0;
    const double width = (std::max)(0.5, right - left - gap);
    rows.each_row(e, [&](int row, double above) {
      const double y = top_of(row) + above * lane, height = lane - above * lane;
      const std::string stage =
          rows.has_workers() && !rows.is_part(row) ? "stage " + std::to_string(e.stage) + ", " : "";
      std::string hint =
          detail::concat({action, ", ", stage, rows.name(row), ": ", ms(e.begin_ns), " to ", ms(e.end_ns), " ms"});
      for (const auto& [ns, words] : {std::pair{e.waited_ns, "waiting"}, std::pair{e.not_running_ns, "not running"}})
        if (ns > 0 && 100 * ns >= e.end_ns - e.begin_ns)
          hint += ", " + detail::fixed(static_cast<double>(ns) * 1e-6, 3) + " ms of it " + words;
      drawing.action("event", e.kind, e.micro_batch, left, y, width, height, hint);
      const double stopped = (std::max)(left, scale.at(e.end_ns - e.not_running_ns));
      if (left + width - stopped >= 0.5)
        drawing.not_running("not-running", stopped, y, left + width - stopped, height, hint);
      const double free = (std::min)(left + width, stopped) - left;
      if (!number.empty() && height >= 11 && free >= 7.0 * static_cast<double>(number.size()) + 3.2)
        // change: the look of an action
        drawing.text(detail::look_of(e.kind).drawn == detail::tone::dark ? "dark" : "light", left + free / 2,
                     y + height / 2 + 4, number);
    });
  }
}

/// Throws `gpipe::error` with the path unless the file was written completely.
inline void write_timeline(const std::string& path, std::span<const trace_event> events,
                           const timeline_options& options = {}) {
  write_file(path, [&](std::ostream& out) { write_timeline(out, events, options); });
}

}  // namespace gpipe
