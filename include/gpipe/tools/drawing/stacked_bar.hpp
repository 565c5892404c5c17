#pragma once

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/drawing/canvas.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace gpipe::detail {

/// A part of a time, in nanoseconds.
struct bar_part {
  const char* name;
  std::int64_t ns;
  action_kind drawn;  // drawn as in a timeline, unless
  const char* fill;   // this colour is not null
};

/// Draws one bar (SVG), each part as wide as its share, with a legend of at most six parts per line and a note below.
GPIPE_COLD inline void write_stacked_bar(std::ostream& out, const std::vector<bar_part>& parts,
                                         const std::string& title, const std::string& note, int width) {
  const std::size_t columns = (std::min)(parts.size(), std::size_t{6}), lines = (parts.size() + columns - 1) / columns;
  const double left = 20, bar = (std::max)(100.0, width - 2 * left), top = 48, height = 40, line = 44;
  const double below = top + height + line * static_cast<double>(lines);
  double sum = 0;
  for (const auto& part : parts) sum += static_cast<double>(part.ns);
  const double whole = (std::max)(1.0, sum);
  canvas drawing(out, bar + 2 * left, below + 32, title);
  drawing.text("head", left, 30, title);
  const auto draw = [&](const char* kind, const bar_part& part, double x, double y, double w, double h,
                        const std::string& hint) {
    if (part.fill == nullptr) return drawing.action(kind, part.drawn, 0, x, y, w, h, hint);
    drawing.box(kind, x, y, w, h, (std::min)(2.5, w / 4));
    out << " fill=\"" << part.fill << "\"><title>" << xml(hint) << "</title></rect>\n";
  };
  double x = left;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bar_part& part = parts[i];
    const double wide = (std::max)(0.0, static_cast<double>(part.ns)) / whole * bar;
    const std::string share = percent(static_cast<double>(part.ns), whole);
    if (part.ns > 0)
      draw("part", part, x, top, wide - (wide > 3 ? 0.8 : 0), height, std::string(part.name) + " " + share);
    x += wide;
    const double key = left + bar / static_cast<double>(columns) * static_cast<double>(i % columns);
    const std::size_t row = i / columns;
    const double down = top + height + line * static_cast<double>(row);
    draw("key", part, key, down + 20, 18, 13, part.name);
    drawing.text("name", key + 24, down + 31, part.name);
    drawing.text("faint", key + 24, down + 48, share);
  }
  drawing.text("faint", left, below + 26, note);
}

}  // namespace gpipe::detail
