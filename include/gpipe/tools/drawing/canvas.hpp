#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/tools/drawing/escape.hpp>

namespace gpipe::detail {

/// A hue per micro-batch, in three tones. Neighbours differ for colour-blind eyes, too; dark ink on the light and
/// middle tones and white ink on the dark tone have a contrast of at least 4.5. Micro-batch m has hue m mod 8.
struct hue {
  const char* light;
  const char* middle;
  const char* dark;
};
// change: the look of an action
inline constexpr std::array<hue, 8> hues{{{"#a9cdf0", "#5e92c9", "#1f5f9e"},
                                          {"#ece08f", "#9f8f19", "#766700"},
                                          {"#e9bfde", "#ba79ab", "#8a3a7a"},
                                          {"#a3dcc8", "#499c84", "#08705a"},
                                          {"#f6b8a8", "#d07560", "#a23a20"},
                                          {"#c8c3f2", "#8d85d1", "#4d42a3"},
                                          {"#a8dfe9", "#4b98aa", "#146c80"},
                                          {"#f8c98b", "#c37f23", "#9c5800"}}};

enum class tone : std::uint8_t { light, middle, dark };

/// The style of an action: forward light, backward dark, its input part between them; recompute and the parameter part
/// hatched.
struct look {
  bool shown = false;
  tone drawn = tone::light;
  bool hatched = false;
  const char* grey = nullptr;  ///< instead of the hue

  constexpr const char* fill(const hue& colours) const {
    if (grey != nullptr) return grey;
    return drawn == tone::light ? colours.light : drawn == tone::middle ? colours.middle : colours.dark;
  }
};
// change: the look of an action
constexpr look look_of(action_kind kind) {
  switch (kind) {
    case action_kind::forward:
      return {.shown = true};
    case action_kind::recompute:
      return {.shown = true, .hatched = true};
    case action_kind::backward:
      return {.shown = true, .drawn = tone::dark};
    case action_kind::backward_input:
      return {.shown = true, .drawn = tone::middle};
    case action_kind::backward_parameters:
      return {.shown = true, .drawn = tone::dark, .hatched = true};
    case action_kind::reduce:
      return {.shown = true, .grey = "#9aa4ad"};
    case action_kind::update:
      return {.shown = true, .grey = "#59636d"};
    default:
      return {};
  }
}

/// A drawing (SVG) under construction; lengths in pixels.
class canvas {
 public:
  GPIPE_COLD canvas(std::ostream& out, double width, double height, const std::string& title) : out_(out) {
    const auto w = fixed(width, 0), h = fixed(height, 0);
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << w << "\" height=\"" << h << "\" viewBox=\"0 0 " << w
         << ' ' << h << "\" role=\"img\">\n<title>" << xml(title) << "</title>\n"
         << style << "<defs>\n"
         << hatch << "</defs>\n";
    box("card", 0, 0, width, height, 10);
    out_ << "/>\n";
  }
  ~canvas() { out_ << "</svg>\n"; }
  canvas(const canvas&) = delete;
  canvas& operator=(const canvas&) = delete;

  /// Writes an open tag, which the caller closes.
  GPIPE_COLD void box(const char* kind, double x, double y, double width, double height, double radius) {
    out_ << "<rect class=\"" << kind << "\" x=\"" << fixed(x, 2) << "\" y=\"" << fixed(y, 2) << "\" width=\""
         << fixed(width, 2) << "\" height=\"" << fixed(height, 2) << "\" rx=\"" << fixed(radius, 1) << '"';
  }
  GPIPE_COLD void text(const char* kind, double x, double y, const std::string& words) {
    out_ << "<text class=\"" << kind << "\" x=\"" << fixed(x, 2) << "\" y=\"" << fixed(y, 2) << "\">" << xml(words)
         << "</text>\n";
  }
  GPIPE_COLD void line(double x, double top, double bottom) {
    out_ << "<path class=\"grid\" d=\"M" << fixed(x, 2) << ' ' << fixed(top, 2) << 'V' << fixed(bottom, 2) << "\"/>\n";
  }

  /// Draws one action: a box in its micro-batch's hue, with a tooltip.
  GPIPE_COLD void action(const char* kind, action_kind action, int micro_batch, double x, double y, double width,
                         double height, const std::string& hint) {
    const look drawn = look_of(action);
    const hue& colours = hues[static_cast<std::size_t>(micro_batch < 0 ? 0 : micro_batch % 8)];
    filled_box(kind, x, y, width, height, drawn.fill(colours), hint);
    if (!drawn.hatched) return;
    box("hatch", x, y, width, height, (std::min)(2.5, width / 4));
    out_ << " fill=\"url(#" << (drawn.drawn == tone::dark ? "bright" : "shade") << ")\"/>\n";
  }
  /// Draws time in which a thread was not running, hatched grey.
  GPIPE_COLD void not_running(const char* kind, double x, double y, double width, double height,
                              const std::string& hint) {
    filled_box(kind, x, y, width, height, "url(#absent)", hint);
  }

 private:
  void filled_box(const char* kind, double x, double y, double width, double height, const char* fill,
                  const std::string& hint) {
    box(kind, x, y, width, height, (std::min)(2.5, width / 4));
    out_ << " fill=\"" << fill << '"';
    if (hint.empty()) out_ << "/>\n";
    else out_ << "><title>" << xml(hint) << "</title></rect>\n";
  }

  static constexpr const char* style =
      "<style>\n"
      "text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#39424a}\n"
      ".card{fill:#fff}.lane{fill:#eef1f4}.grid{stroke:#d3d9de;stroke-width:1;fill:none}\n"
      ".head{font-size:15px;font-weight:600}.row{text-anchor:end}.faint,.tick,.cut{fill:#66707a;font-size:11px}\n"
      ".tick,.cut{text-anchor:middle}.light,.dark{font-size:11px;text-anchor:middle;pointer-events:none}\n"
      ".light{fill:#1a2026}.dark{fill:#fff}.hatch{pointer-events:none}\n"
      "@media(prefers-color-scheme:dark){text{fill:#d5dbe1}.card{fill:#161b21}.lane{fill:#252c34}\n"
      ".grid{stroke:#3a434d}.faint,.tick,.cut{fill:#98a3ae}.light{fill:#1a2026}.dark{fill:#fff}}\n"
      "</style>\n";
  static constexpr const char* hatch =
      "<pattern id=\"shade\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"1.8\" height=\"6\" fill=\"#1a2026\" fill-opacity=\".28\"/>"
      "</pattern>\n"
      "<pattern id=\"bright\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(-45)\"><rect width=\"1.8\" height=\"6\" fill=\"#fff\" fill-opacity=\".3\"/>"
      "</pattern>\n"
      "<pattern id=\"absent\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" fill=\"#c3cad0\"/>"
      "<rect width=\"2\" height=\"5\" fill=\"#7d8791\"/></pattern>\n";
  std::ostream& out_;
};

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
