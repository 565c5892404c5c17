#pragma once

#include <gpipe/core/concat.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/file/write_file.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/tools/drawing/canvas.hpp>
#include <gpipe/tools/drawing/timeline_layout.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpipe {

namespace detail {

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
