#pragma once

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/action.hpp>
#include <gpipe/record/canvas.hpp>
#include <gpipe/record/file.hpp>
#include <gpipe/record/escape.hpp>
#include <gpipe/record/trace.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
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

/// Draws a step (SVG): a row per stage, replica after replica; a hue per micro-batch; time from left to right. A stage
/// waits where its row shows the background. Transfers and idle events are not drawn. Also draws a timetable that was
/// never run: give its events synthetic times.
GPIPE_COLD inline void write_timeline(std::ostream& out, std::span<const event> events,
                                      const std::string& title = "one step", int width = 1200) {
  std::int64_t first = INT64_MAX, last = INT64_MIN;
  int stages = 1, replicas = 1;
  std::vector<action_kind> kinds;
  for (const event& e : events) {
    if (!detail::look_of(e.kind).shown || e.stage < 0) continue;
    first = (std::min)(first, e.begin_ns);
    last = (std::max)(last, e.end_ns);
    stages = (std::max)(stages, e.stage + 1);
    replicas = (std::max)(replicas, e.replica + 1);
    if (std::find(kinds.begin(), kinds.end(), e.kind) == kinds.end()) kinds.push_back(e.kind);
  }
  std::sort(kinds.begin(), kinds.end());
  if (first >= last) last = (first = 0) + 1'000'000;
  const int rows = replicas * stages;
  const auto row_of = [stages](const event& e) { return e.replica * stages + e.stage; };

  const double span = static_cast<double>(last - first), left = 76, right = 84, top = 74;
  const double plot = (std::max)(100.0, width - left - right);
  const double lane = (std::max)(12.0, (std::min)(34.0, 640.0 / rows)), pitch = lane + (lane < 20 ? 3 : 6);
  const double bottom = top + rows * pitch;
  const auto at = [&](std::int64_t ns) { return left + static_cast<double>(ns - first) / span * plot; };

  detail::canvas picture(out, left + plot + right, bottom + 46, title);
  picture.text("head", 20, 30, title);
  double x = left;
  for (const action_kind kind : kinds) {
    picture.action("key", kind, 0, x, 44, 18, 13, "");
    picture.text("faint", x + 24, 54.5, name(kind));
    x += 24 + 6.3 * static_cast<double>(std::string(name(kind)).size()) + 20;
  }
  picture.box("lane", x, 44, 18, 13, 2);
  out << "/>\n";
  picture.text("faint", x + 24, 54.5, "waiting");
  picture.text("faint", x + 24 + 66, 54.5, "number and hue: micro-batch");

  std::vector<double> busy(static_cast<std::size_t>(rows));
  for (const event& e : events)
    if (detail::look_of(e.kind).shown && e.stage >= 0)
      busy[static_cast<std::size_t>(row_of(e))] += static_cast<double>(e.end_ns - e.begin_ns);
  const auto name_of = [=](int row) {
    return (replicas > 1 ? std::to_string(row / stages) + ": stage " : "stage ") + std::to_string(row % stages);
  };
  for (int row = 0; row < rows; ++row) {
    const double y = top + row * pitch;
    picture.box("lane", left, y, plot, lane, 3);
    out << "/>\n";
    picture.text("row", left - 10, y + lane / 2 + 4, name_of(row));
    const double waiting = (std::max)(0.0, 1 - busy[static_cast<std::size_t>(row)] / span);
    picture.text("faint", left + plot + 10, y + lane / 2 + 4, "waits " + detail::fixed(100 * waiting, 0) + " %");
  }

  const double step = detail::round_step(span * 1e-6, plot / 90);
  const int decimals = step >= 1 ? 0 : (std::min)(6, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  for (int i = 0; i * step <= span * 1e-6; ++i) {
    const double tick = left + i * step / (span * 1e-6) * plot;
    picture.line(tick, bottom - pitch + lane + 2, bottom + 6);
    picture.text("tick", tick, bottom + 20, detail::fixed(i * step, decimals));
  }
  picture.text("faint", left + plot + 28, bottom + 20, "ms");

  for (const event& e : events) {
    const auto look = detail::look_of(e.kind);
    if (!look.shown || e.stage < 0) continue;
    const double from = at(e.begin_ns), to = at(e.end_ns), y = top + row_of(e) * pitch;
    const double gap = to - from > 4 ? 0.8 : 0;
    const std::string number = e.micro_batch < 0 ? "" : std::to_string(e.micro_batch);
    const auto ms = [first](std::int64_t ns) { return detail::fixed(static_cast<double>(ns - first) * 1e-6, 3); };
    picture.action("event", e.kind, e.micro_batch, from, y, to - from - gap, lane,
                   std::string(name(e.kind)) + (number.empty() ? "" : " " + number) + ", " + name_of(row_of(e)) +
                       ": " + ms(e.begin_ns) + " to " + ms(e.end_ns) + " ms");
    if (!number.empty() && to - from >= 7.0 * static_cast<double>(number.size()) + 4)
      picture.text(look.dark ? "dark" : "light", (from + to - gap) / 2, y + lane / 2 + 4, number);
  }
}

/// Throws `gpipe::error` with the path unless the file was written completely.
inline void write_timeline(const std::string& path, std::span<const event> events,
                           const std::string& title = "one step", int width = 1200) {
  write_file(path, [&](std::ostream& out) { write_timeline(out, events, title, width); });
}

}  // namespace gpipe
