#pragma once

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/action.hpp>
#include <gpipe/record/escape.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string>

namespace gpipe::detail {

/// A hue per micro-batch, light and dark. Neighbours differ for colour-blind eyes too; dark ink on the light one and
/// white ink on the dark one have a contrast of at least 4.5. Micro-batch m has hue m mod 8.
struct hue {
  const char* light;
  const char* dark;
};
inline constexpr std::array<hue, 8> hues{{{"#a9cdf0", "#1f5f9e"},
                                          {"#ece08f", "#766700"},
                                          {"#e9bfde", "#8a3a7a"},
                                          {"#a3dcc8", "#08705a"},
                                          {"#f6b8a8", "#a23a20"},
                                          {"#c8c3f2", "#4d42a3"},
                                          {"#a8dfe9", "#146c80"},
                                          {"#f8c98b", "#9c5800"}}};

/// The style of an action: forward light, backward dark, recompute and the parameter part hatched.
struct look {
  bool shown = false, dark = false, hatched = false;
  const char* grey = nullptr;  ///< instead of the hue
};
constexpr look look_of(action_kind kind) {
  switch (kind) {
    case action_kind::forward: return {.shown = true};
    case action_kind::recompute: return {.shown = true, .hatched = true};
    case action_kind::backward:
    case action_kind::backward_input: return {.shown = true, .dark = true};
    case action_kind::backward_parameters: return {.shown = true, .dark = true, .hatched = true};
    case action_kind::reduce: return {.shown = true, .grey = "#9aa4ad"};
    case action_kind::update: return {.shown = true, .grey = "#59636d"};
    default: return {};
  }
}

/// A picture (SVG) under construction; lengths in pixels.
class canvas {
 public:
  GPIPE_COLD canvas(std::ostream& out, double width, double height, const std::string& title) : out_(out) {
    const auto w = fixed(width, 0), h = fixed(height, 0);
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << w << "\" height=\"" << h << "\" viewBox=\"0 0 " << w
         << ' ' << h << "\" role=\"img\">\n<title>" << xml(title) << "</title>\n" << style << "<defs>\n"
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
  GPIPE_COLD void action(const char* kind, action_kind what, int micro_batch, double x, double y, double width,
                         double height, const std::string& hint) {
    const look drawn = look_of(what);
    const hue& colours = hues[static_cast<std::size_t>(micro_batch < 0 ? 0 : micro_batch % 8)];
    const char* fill = drawn.grey ? drawn.grey : drawn.dark ? colours.dark : colours.light;
    const double radius = (std::min)(2.5, width / 4);
    box(kind, x, y, width, height, radius);
    out_ << " fill=\"" << fill << '"';
    if (hint.empty()) out_ << "/>\n";
    else out_ << "><title>" << xml(hint) << "</title></rect>\n";
    if (!drawn.hatched) return;
    box("hatch", x, y, width, height, radius);
    out_ << " fill=\"url(#" << (drawn.dark ? "bright" : "shade") << ")\"/>\n";
  }

 private:
  static constexpr const char* style =
      "<style>\n"
      "text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#39424a}\n"
      ".card{fill:#fff}.lane{fill:#eef1f4}.grid{stroke:#d3d9de;stroke-width:1;fill:none}\n"
      ".head{font-size:15px;font-weight:600}.row{text-anchor:end}.faint,.tick{fill:#66707a;font-size:11px}\n"
      ".tick{text-anchor:middle}.light,.dark{font-size:11px;text-anchor:middle;pointer-events:none}\n"
      ".light{fill:#1a2026}.dark{fill:#fff}.hatch{pointer-events:none}\n"
      "@media(prefers-color-scheme:dark){text{fill:#d5dbe1}.card{fill:#161b21}.lane{fill:#252c34}\n"
      ".grid{stroke:#3a434d}.faint,.tick{fill:#98a3ae}.light{fill:#1a2026}.dark{fill:#fff}}\n"
      "</style>\n";
  static constexpr const char* hatch =
      "<pattern id=\"shade\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"1.8\" height=\"6\" fill=\"#1a2026\" fill-opacity=\".28\"/>"
      "</pattern>\n"
      "<pattern id=\"bright\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(-45)\"><rect width=\"1.8\" height=\"6\" fill=\"#fff\" fill-opacity=\".3\"/>"
      "</pattern>\n";
  std::ostream& out_;
};

}  // namespace gpipe::detail
