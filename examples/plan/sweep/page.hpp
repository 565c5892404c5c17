#pragma once

// Draws a sweep: a page of small charts.
//
//                 no memory limit    24 GiB a device    16 GiB a device
//     ms  100     1f1b . .           1f1b . .           1f1b .
//                          . .                . .               . . .
//          50     zb-h1 . . .        zb-h1 . . .        zb-h1 . . .
//                 bound - - - -      bound - - - -      bound - - - -
//                   4  8  16  32       4  8  16  32       4  8  16  32    micro-batches
//                                                       no plan: zb-v
//
// A column is a memory limit. A row is what else differs: stages, recompute, link. With one limit three rows share a
// line.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/tools/drawing/timeline.hpp>

#include "combination.hpp"
#include "refusals.hpp"
#include "schedule_look.hpp"
#include "settings.hpp"
#include "units.hpp"

namespace example {

using namespace gpipe;

class sweep_page {
 public:
  sweep_page(const sweep_settings& chosen, const std::string& title, const std::vector<swept>& all)
      : chosen_(chosen), title_(title), all_(all) {
    for (const swept& it : all)
      if (it.planned()) largest_ = std::max(largest_, value(it.step, it.of));
  }

  /// Throws if the page would have too many charts.
  static void require_readable(const sweep_settings& chosen) {
    const std::size_t columns = chosen.limits.size(), rows = row_count(chosen);
    if (columns > max_columns || rows > max_rows)
      throw error(concat({"option --svg: the page has ", rows, " x ", columns,
                          " charts, a row for each value of --stages, --recompute and --link and a column for each of "
                          "--memory-limit"}),
                  concat({"leave values out, to at most ", max_rows, " x ", max_columns, ", or leave --svg out"}));
  }

  void draw(std::ostream& out) {
    const std::vector<line> lines = lines_of_charts();
    const std::size_t columns = lines.front().size();
    wide_ = columns == 1 ? 640 : columns == 2 ? 440 : columns == 3 ? 340 : 280;
    const double width = left + static_cast<double>(columns) * (wide_ + gap) - gap + right;
    double y = legend_bottom(width) + 36, height = y;
    for (const line& charts : lines) height += head() + high + foot_of(charts);
    gpipe::detail::canvas drawing(out, width, height, title_);
    out << style;
    out_ = &out;
    drawing_ = &drawing;
    drawing.text("head", 20, 30, title_);
    drawing.text("faint", 20, 49,
                 "a line: each schedule with the best cut that was found; dashed: no cut comes under it");
    draw_legend(width);
    for (const line& charts : lines) {
      if (has_heads()) drawing.text("chart", 20, y, name_of_row(charts.front()));
      draw_charts(charts, y + head() - 8);
      y += head() + high + foot_of(charts);
    }
    drawing_ = nullptr;
  }

 private:
  using line = std::vector<combination>;  // each gives a chart's stages, recompute, limit and link

  static constexpr std::size_t max_columns = 6, max_rows = 12;
  static constexpr double left = 74, right = 26, gap = 22, high = 210, row_foot = 62, inset = 16, note_line = 14;

  static constexpr const char* style =
      "<style>.line{fill:none;stroke-linejoin:round}.bound{fill:none;stroke:#66707a;stroke-width:1.6;"
      "stroke-dasharray:5 4}.marker{stroke-width:1.8}.chart{font-size:12px;font-weight:600}.value{text-anchor:end;"
      "fill:#66707a;font-size:11px}.frame{fill:none;stroke:#aab3bb;stroke-width:1}"
      "@media(prefers-color-scheme:dark){.bound{stroke:#98a3ae}.value{fill:#98a3ae}.frame{stroke:#525c66}}</style>\n";

  static std::size_t row_count(const sweep_settings& chosen) {
    return std::max<std::size_t>(1, chosen.stages.size()) * chosen.recompute.size() * chosen.links.size();
  }
  bool has_heads() const { return chosen_.limits.size() > 1; }
  double head() const { return has_heads() ? 44 : 22; }

  // A line for each row, headed by its name, with a chart for each limit. With one limit all rows' charts stand in
  // lines of three.
  std::vector<line> lines_of_charts() const {
    std::vector<line> lines;
    const std::vector<int> of_schedule{0};
    for (const int stages : chosen_.stages.empty() ? of_schedule : chosen_.stages)
      for (const recompute_mode recompute : chosen_.recompute)
        for (const std::int64_t link : chosen_.links) {
          if (has_heads() || lines.empty() || lines.back().size() == 3) lines.emplace_back();
          for (const std::int64_t limit : chosen_.limits) {
            combination chart;
            chart.stages = stages;
            chart.recompute = recompute;
            chart.limit = limit;
            chart.link = link;
            lines.back().push_back(chart);
          }
        }
    return lines;
  }
  std::string name_of_chart(const combination& chart) const {
    const std::string limit = chart.limit == INT64_MAX ? "no memory limit" : bytes(chart.limit) + " a device";
    return has_heads() ? limit : name_of_row(chart) + (chart.limit == INT64_MAX ? "" : ", " + limit);
  }
  std::string name_of_row(const combination& row) const {
    std::string name = row.stages > 0 ? several(row.stages, "stage") : several(chosen_.devices, "device");
    name += ", recompute " + name_in(recomputes, row.recompute) + ", ";
    return name + (row.link > 0 ? "links of " + rate(row.link) : "free transfers");
  }
  /// Nanoseconds: of a step, or of a micro-batch if their size is not known.
  double value(std::int64_t ns, const combination& of) const {
    return static_cast<double>(ns) / (chosen_.costs.empty() ? 1 : of.micro_batches);
  }

  // The legend stands in lines of entries, as wide as their words. The last is the lower bound's.
  template <class Draw>
  double each_entry(double width, const Draw& draw) const {
    double x = 20, y = 76;
    for (std::size_t i = 0; i <= chosen_.orders.size(); ++i) {
      const bool last = i == chosen_.orders.size();
      const std::string name = last ? "lower bound of them all" : name_in(schedules, chosen_.orders[i]);
      const double wide = 38 + 7 * static_cast<double>(name.size()) + 20;
      if (x > 20 && x + wide > width - right) {
        x = 20;
        y += 20;
      }
      draw(i, name, x, y);
      x += wide;
    }
    return y;
  }
  double legend_bottom(double width) const {
    return each_entry(width, [](std::size_t, const std::string&, double, double) {});
  }
  void draw_legend(double width) {
    each_entry(width, [this](std::size_t i, const std::string& name, double x, double y) {
      const std::string path = "d=\"M" + fixed(x, 1) + ' ' + fixed(y - 4, 1) + "h30\"/>\n";
      drawing_->text("name", x + 38, y, name);
      if (i == chosen_.orders.size()) {
        *out_ << "<path class=\"bound\" " << path;
        return;
      }
      *out_ << "<path " << stroke(i) << path;
      marker(i, x + 15, y - 4, "");
    });
  }

  // Schedules whose lines lie upon each other are seen, for each line is narrower than the one under it.
  double rank(std::size_t i) const {
    return 1 - static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(1, chosen_.orders.size() - 1));
  }
  std::string stroke(std::size_t i) const {
    return concat({"stroke=\"", schedule_look(chosen_.orders[i]).colour(), "\" stroke-width=\""}) +
           fixed(1.6 + 1.6 * rank(i), 1) + "\" ";
  }

  void marker(std::size_t order, double x, double y, const std::string& hint) {
    const schedule_look look(chosen_.orders[order]);
    *out_ << "<path class=\"marker" << (look.hollow() ? " card" : "") << "\" stroke=\"" << look.colour() << '"';
    if (!look.hollow()) *out_ << " fill=\"" << look.colour() << '"';
    *out_ << " d=\"" << look.outline(x, y, 3.6 + rank(order)) << '"';
    if (hint.empty()) *out_ << "/>\n";
    else *out_ << "><title>" << gpipe::detail::xml(hint) << "</title></path>\n";
  }

  std::vector<std::string> notes_of(const combination& chart) const {
    std::vector<const swept*> shown;
    for (const swept& it : all_)
      if (it.is_in(chart)) shown.push_back(&it);
    return lines_without_plan(shown, chosen_.orders, static_cast<std::size_t>(wide_ / 6));
  }
  double foot_of(const line& charts) const {
    std::size_t most = 0;
    for (const combination& chart : charts) most = std::max(most, notes_of(chart).size());
    return row_foot + note_line * static_cast<double>(most);
  }

  // The charts of a line have one scale.
  void draw_charts(const line& charts, double top) {
    double low = largest_, most = 0;
    for (const swept& it : all_)
      for (const combination& chart : charts)
        if (it.planned() && it.is_in(chart)) {
          low = std::min(low, value(it.bound, it.of));
          most = std::max(most, value(it.step, it.of));
        }
    if (most == 0) most = largest_;
    const double unit = unit_of(largest_);
    const double step = gpipe::detail::round_step(std::max(most - 0.95 * low, 0.1 * most) / unit, 6);
    from_ = std::floor(0.95 * low / unit / step) * step;
    to_ = std::ceil(1.02 * most / unit / step) * step;
    top_ = top;
    const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
    const auto ticks = static_cast<int>(std::lround((to_ - from_) / step));
    drawing_->text("value", left - 8, top_ - 12, name_of_unit(largest_));
    double x = left;
    for (const combination& chart : charts) {
      for (int tick = 0; tick <= ticks; ++tick) {
        const double at = from_ + tick * step;
        *out_ << "<path class=\"grid\" d=\"M" << fixed(x, 1) << ' ' << fixed(y_of(at * unit), 1) << 'h'
              << fixed(wide_, 1) << "\"/>\n";
        if (x == left) drawing_->text("value", left - 8, y_of(at * unit) + 4, fixed(at, decimals));
      }
      drawing_->text("faint", x, top_ - 12, name_of_chart(chart));
      draw_axis(x);
      draw_bound(chart, x);
      for (std::size_t i = 0; i < chosen_.orders.size(); ++i) draw_line(chart, i, x);
      double note = top_ + high + 50;
      for (const std::string& words : notes_of(chart)) {
        drawing_->text("faint", x, note, words);
        note += note_line;
      }
      x += wide_ + gap;
    }
  }

  void draw_axis(double x) {
    *out_ << "<path class=\"frame\" d=\"M" << fixed(x, 1) << ' ' << fixed(top_ + high, 1) << 'h' << fixed(wide_, 1)
          << "\"/>\n";
    double last = -INFINITY;
    for (const int M : chosen_.micro_batches) {
      const double at = x_of(M, x);
      drawing_->line(at, top_ + high, top_ + high + 5);
      if (at - last < 8 + 7 * static_cast<double>(std::to_string(M).size())) continue;
      drawing_->text("tick", at, top_ + high + 18, std::to_string(M));
      last = at;
    }
    drawing_->text("tick", x + wide_ / 2, top_ + high + 33, "micro-batches M");
  }

  // Below all steps with this limit, whether a schedule has a plan or not.
  void draw_bound(const combination& chart, double x) {
    std::string path;
    for (const int M : chosen_.micro_batches) {
      double bound = INFINITY;
      for (const swept& it : all_)
        if (it.of.micro_batches == M && it.bound > 0 && it.is_in(chart))
          bound = std::min(bound, value(it.bound, it.of));
      if (bound < INFINITY) path += (path.empty() ? "M" : "L") + fixed(x_of(M, x), 1) + ' ' + fixed(y_of(bound), 1);
    }
    if (!path.empty()) *out_ << "<path class=\"bound\" d=\"" << path << "\"/>\n";
  }

  void draw_line(const combination& chart, std::size_t order, double x) {
    std::string path;
    std::vector<const swept*> marks;
    bool joined = false;
    for (const swept& it : all_) {
      if (it.of.schedule != chosen_.orders[order] || !it.is_in(chart)) continue;
      if (it.planned()) {
        marks.push_back(&it);
        path +=
            (joined ? "L" : "M") + fixed(x_of(it.of.micro_batches, x), 1) + ' ' + fixed(y_of(value(it.step, it.of)), 1);
      }
      joined = it.planned();
    }
    if (path.empty()) return;
    *out_ << "<path class=\"line\" " << stroke(order) << "d=\"" << path << "\"/>\n";
    for (const swept* const it : marks)
      marker(order, x_of(it->of.micro_batches, x), y_of(value(it->step, it->of)),
             name_in(schedules, it->of.schedule) +
                 concat({", ", several(it->of.stages, "stage"), ", ", several(it->of.micro_batches, "micro-batch"),
                         ": "}) +
                 time(it->step) + ", at least " + time(it->bound) + ", idle " + percent(it->idle) +
                 ", largest device " + bytes(it->max_bytes));
  }

  double x_of(int micro_batches, double x) const {
    const double first = std::log2(chosen_.micro_batches.front()), last = std::log2(chosen_.micro_batches.back());
    if (last == first) return x + wide_ / 2;
    return x + inset + (std::log2(micro_batches) - first) / (last - first) * (wide_ - 2 * inset);
  }
  double y_of(double ns) const { return top_ + high - (ns / unit_of(largest_) - from_) / (to_ - from_) * high; }

  const sweep_settings& chosen_;
  const std::string title_;
  const std::vector<swept>& all_;
  double largest_ = 0, wide_ = 0, top_ = 0, from_ = 0, to_ = 1;
  std::ostream* out_ = nullptr;
  gpipe::detail::canvas* drawing_ = nullptr;
};

}  // namespace example
