#pragma once

// How a chart shows a schedule: a colour and a marker, the same on every page.

#include <cstddef>
#include <string>

#include "../choice.hpp"
#include "../text.hpp"

namespace example {

using namespace gpipe;

/// Neighbours in the list of schedules differ in both. A marker is a disc, square, diamond or triangle; every second
/// four are hollow.
class schedule_look {
 public:
  explicit schedule_look(schedule_kind kind) {
    while (schedules[index_].second != kind) ++index_;
  }

  const char* colour() const { return colours[index_]; }
  bool hollow() const { return index_ / 4 % 2 == 1; }

  /// The marker's outline, as a path of an SVG file; `r` is half its size.
  std::string outline(double x, double y, double r) const {
    const auto number = [](double a) { return fixed(a, 2) + ' '; };
    const auto move = [&](double dx, double dy) { return "M" + number(x + dx) + number(y + dy); };
    const auto line = [&](double dx, double dy) { return "l" + number(dx) + number(dy); };
    const auto half = [&](double dx) { return "a" + number(r) + number(r) + "0 1 0 " + number(dx) + "0"; };
    if (index_ % 4 == 0) return move(-r, 0) + half(2 * r) + half(-2 * r);
    if (index_ % 4 == 1) return move(-r, -r) + line(2 * r, 0) + line(0, 2 * r) + line(-2 * r, 0) + 'z';
    if (index_ % 4 == 3) return move(0, -1.2 * r) + line(1.2 * r, 2 * r) + line(-2.4 * r, 0) + 'z';
    const double d = 1.3 * r;
    return move(0, -d) + line(d, d) + line(-d, d) + line(-d, -d) + 'z';
  }

 private:
  static constexpr const char* colours[] = {"#2f6db5", "#d4483b", "#2b9c6a", "#8a6d3b", "#e08a00", "#7a56c2",
                                            "#1ba3bd", "#c23f95", "#7f8f14", "#5f6f80", "#9c2f2f", "#888888"};
  std::size_t index_ = 0;
};

}  // namespace example
