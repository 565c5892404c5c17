#pragma once

#include <gpipe/tools/drawing/canvas.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace bench {

/// The seconds and the memory that a compiler took over a plan.
struct planned {
  int blocks = 0, stages = 0;
  std::string compiler;
  double seconds = 0, megabytes = 0;

  std::string name() const {
    return "compile." + std::to_string(blocks) + "x" + std::to_string(stages) + "." + compiler;
  }
};

/// Seconds over blocks, both axes logarithmic: a panel for each number of stages, side by side, in each a line for each
/// compiler; thin across them, where the goal is.
inline void draw_curves(std::ostream& out, const std::vector<planned>& points, double goal) {
  using gpipe::detail::fixed;
  constexpr double top = 92, height = 240, left = 48, wide = 230, gap = 24;
  constexpr std::array colours{"#2f7fd0", "#d0641e", "#1f9a6e", "#8a5ad0"};  // each on light and on dark

  double min = goal, max = goal;
  int fewest = points.front().blocks, largest = fewest;
  std::map<int, std::map<std::string, std::vector<planned>>> panels;
  std::vector<std::string> compilers;
  for (const planned& p : points) {
    min = (std::min)(min, p.seconds);
    max = (std::max)(max, p.seconds);
    fewest = (std::min)(fewest, p.blocks);
    largest = (std::max)(largest, p.blocks);
    panels[p.stages][p.compiler].push_back(p);
    if (std::find(compilers.begin(), compilers.end(), p.compiler) == compilers.end()) compilers.push_back(p.compiler);
  }
  min *= 0.8;
  max *= 1.2;
  const auto x_of = [&](int blocks) {
    return 16 + (wide - 32) * std::log(1.0 * blocks / fewest) / (std::max)(0.1, std::log(1.0 * largest / fewest));
  };
  const auto y_of = [&](double seconds) { return top + height * std::log(max / seconds) / std::log(max / min); };
  const auto colour = [&](const std::string& compiler) {
    const auto found = std::find(compilers.begin(), compilers.end(), compiler);
    return colours[static_cast<std::size_t>(found - compilers.begin()) % colours.size()];
  };
  const auto path = [&](const std::string& style, const std::string& way) {
    out << "<path fill=\"none\" " << style << " d=\"" << way << "\"/>\n";
  };
  const auto point = [](double x, double y) { return fixed(x, 1) + ' ' + fixed(y, 1); };

  const double width = left + static_cast<double>(panels.size()) * (wide + gap);
  gpipe::detail::canvas drawing(out, width, top + height + 56, "Seconds to compile a plan, over blocks of the model");
  drawing.text("head", 20, 30, "Seconds to compile a plan of a Transformer, over its blocks");
  double x = 20;
  for (const std::string& compiler : compilers) {
    path("stroke-width=\"2.5\" stroke=\"" + std::string(colour(compiler)) + '"',
         'M' + point(x, 49) + 'H' + fixed(x + 22, 0));
    drawing.text("legend", x + 28, 53, compiler);
    x += 60 + 7 * static_cast<double>(compiler.size());
  }
  path("stroke=\"#808890\" stroke-dasharray=\"5 3\"", 'M' + point(x, 49) + 'H' + fixed(x + 22, 0));
  drawing.text("legend", x + 28, 53, "goal for g++ and clang++ at 1663 blocks on 128 stages: " + fixed(goal, 0) + " s");

  double begin = left;
  for (const auto& [stages, lines] : panels) {
    drawing.box("lane", begin, top, wide, height, 4);
    out << "/>\n";
    drawing.text("legend", begin, top - 10, std::to_string(stages) + (stages == 1 ? " stage" : " stages"));
    for (const double tick : {0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0}) {
      if (tick < min || tick > max) continue;
      path("class=\"grid\"", 'M' + point(begin, y_of(tick)) + 'h' + fixed(wide, 0));
      if (begin == left) drawing.text("row", left - 8, y_of(tick) + 4, gpipe::detail::significant(tick, 2));
    }
    for (int blocks = 0; const planned& p : points) {
      if (p.blocks <= blocks) continue;
      blocks = p.blocks;
      drawing.line(begin + x_of(blocks), top, top + height);
      drawing.text("tick", begin + x_of(blocks), top + height + 18, std::to_string(blocks));
    }
    drawing.text("tick", begin + wide / 2, top + height + 38, "blocks");
    path("stroke=\"#808890\" stroke-dasharray=\"5 3\"", 'M' + point(begin, y_of(goal)) + 'h' + fixed(wide, 0));
    for (const auto& [compiler, line] : lines) {
      std::string way;
      for (const planned& p : line) way += (way.empty() ? 'M' : 'L') + point(begin + x_of(p.blocks), y_of(p.seconds));
      path("stroke-width=\"2.5\" stroke=\"" + std::string(colour(compiler)) + '"', way);
      for (const planned& p : line)
        out << "<circle cx=\"" << fixed(begin + x_of(p.blocks), 1) << "\" cy=\"" << fixed(y_of(p.seconds), 1)
            << "\" r=\"3.5\" fill=\"" << colour(compiler) << "\"><title>" << p.name() << ": " << fixed(p.seconds, 2)
            << " s, " << fixed(p.megabytes, 0) << " MB</title></circle>\n";
    }
    begin += wide + gap;
  }
}

}  // namespace bench
