#pragma once

// Draws what was planned.

#include <algorithm>
#include <string>

#include <gpipe/tools/drawing/timeline.hpp>

#include "choice.hpp"
#include "planned.hpp"
#include "subject.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

/// The model as a bar, cut into stages, each layer as wide as its share of the time; below it the timetable.
inline void draw(const std::string& path, const subject& it, const choice& c, const planned& p) {
  write_file(path, [&](std::ostream& out) {
    constexpr double width = 1200, left = 76, bar = width - 2 * left, top = 50, height = 34, below = 120;
    const int lanes = c.stages;
    const double lane = std::clamp(640.0 / lanes, 12.0, 34.0);
    gpipe::detail::canvas drawing(out, width, below + 140 + lanes * (lane + 6), it.title);
    drawing.text("head", 20, 30, it.title + ": " + several(it.layers(), "layer") + " on " + several(c.stages, "stage"));
    double all = 0, x = left;
    for (const planned_stage& s : p.stages) all += static_cast<double>(s.forward + s.backward);
    for (std::size_t s = 0; s < p.stages.size(); ++s) {
      const planned_stage& of = p.stages[s];
      const double begin = x;
      for (int l = of.first; l < of.last; ++l) {
        const layer_cost& cost = it.costs[static_cast<std::size_t>(l)];
        const double share = static_cast<double>(cost.forward + cost.backward_input + cost.backward_parameters);
        const double wide = all > 0 ? share / all * bar : bar / it.layers();
        drawing.action("layer", action_kind::forward, static_cast<int>(s), x, top,
                       std::max(0.1, wide - (wide > 3 ? 0.8 : 0)), height,
                       concat({"layer ", l, " ", it.names[static_cast<std::size_t>(l)], ": "}) +
                           time(cost.forward + cost.backward_input + cost.backward_parameters));
        x += wide;
      }
      if (x - begin > 30) {
        drawing.text("light", (begin + x) / 2, top + height / 2 + 4, std::to_string(s));
        if (x - begin > 64) drawing.text("tick", (begin + x) / 2, top + height + 18, bytes(of.bytes));
      }
    }
    out << "<g transform=\"translate(0," << fixed(below, 0) << ")\">\n";
    write_timeline(out, p.events,
                   {.title = std::string(name_of(c.schedule)) + ", " + several(c.micro_batches, "micro-batch") +
                             ": a step takes " + time(p.makespan),
                    .width = static_cast<int>(width)});
    out << "</g>\n";
  });
}

}  // namespace example
