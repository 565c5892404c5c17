#pragma once

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/tools/drawing/canvas.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace bench {

/// The mean of some figures, and their standard deviation.
struct spread {
  double mean = 0, deviation = 0;
  std::size_t count = 0;

  spread() = default;
  explicit spread(const std::vector<double>& all) : count(all.size()) {
    const auto n = static_cast<double>(all.size());
    for (const double x : all) mean += x / n;
    for (const double x : all) deviation += (x - mean) * (x - mean) / std::max(1.0, n - 1);
    deviation = std::sqrt(deviation);
  }
  /// The standard error of the mean.
  double error() const { return deviation / std::sqrt(std::max(1.0, static_cast<double>(count))); }
};

/// Bars that belong together, as many as the drawing's key has names.
struct bar_group {
  std::string name;
  std::vector<spread> bars;
};

struct bar_axis {
  double from = 0, to = 1, tick = 0.1;
  double percent = 1;  ///< what a number of the axis is multiplied by
  std::string unit{};
};

/// Bars in groups; a line spans a deviation to both sides.
inline void draw_bars(const std::string& path, const std::string& title, const std::vector<std::string>& key,
                      const std::vector<bar_group>& groups, const bar_axis& axis) {
  std::ofstream out(path);
  constexpr double left = 60, top = 60, height = 240, bar = 46, gap = 46;
  const double group = static_cast<double>(key.size()) * (bar + 2) + gap;
  const double width = std::max(group * static_cast<double>(groups.size()), 8 * static_cast<double>(title.size()));
  gpipe::detail::canvas drawing(out, left + width + 20, top + height + 80, title);
  drawing.text("head", 20, 30, title);
  const auto at = [&](double value) {
    return top + height * (1 - std::clamp((value - axis.from) / (axis.to - axis.from), 0.0, 1.0));
  };
  for (int i = 0; axis.from + i * axis.tick < axis.to + 0.5 * axis.tick; ++i) {
    const double value = axis.from + i * axis.tick;
    drawing.text("row", left - 8, at(value) + 4, gpipe::detail::significant(axis.percent * value, 3) + axis.unit);
  }
  const auto fill = [](std::size_t which) {
    const gpipe::detail::hue& of = gpipe::detail::hues[0];
    return which == 0 ? of.light : which == 1 ? of.dark : of.middle;
  };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const double first = left + group * static_cast<double>(i) + gap / 2;
    for (std::size_t b = 0; b < groups[i].bars.size(); ++b) {
      const spread& of = groups[i].bars[b];
      const double x = first + static_cast<double>(b) * (bar + 2), y = at(of.mean);
      drawing.box("part", x, y, bar, top + height - y, 2);
      out << " fill=\"" << fill(b) << "\"/>\n";
      drawing.line(x + bar / 2, at(of.mean + of.deviation), at(of.mean - of.deviation));
    }
    drawing.text("tick", first + (group - gap) / 2, top + height + 18, groups[i].name);
  }
  double x = left;
  for (std::size_t which = 0; which < key.size(); ++which) {
    drawing.box("key", x, top + height + 42, 18, 13, 2);
    out << " fill=\"" << fill(which) << "\"/>\n";
    drawing.text("name", x + 24, top + height + 53, key[which]);
    x += 44 + 7 * static_cast<double>(key[which].size());
  }
}

}  // namespace bench
