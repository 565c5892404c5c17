#include <gpipe/tools/drawing/canvas.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

using namespace gpipe;

namespace {

/// Relative luminance and contrast as in WCAG 2.1.
double luminance(const std::string& hex) {
  const auto part = [&](std::size_t at) {
    const double c = std::stoi(hex.substr(at, 2), nullptr, 16) / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
}

double contrast(const std::string& a, const std::string& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

}  // namespace

TEST_CASE("numbers are readable on every hue, and light differs from dark") {
  for (const auto& hue : gpipe::detail::hues) {
    CAPTURE(hue.light);
    CHECK(contrast(hue.light, "#1a2026") >= 4.5);
    CHECK(contrast(hue.dark, "#ffffff") >= 4.5);
    CHECK(contrast(hue.middle, "#1a2026") >= 4.5);
    CHECK(contrast(hue.light, hue.dark) >= 3);
    CHECK(contrast(hue.light, hue.middle) >= 1.6);
    CHECK(contrast(hue.middle, hue.dark) >= 1.6);
  }
}

TEST_CASE("forward is light, backward dark, its input part between them; recompute and the parameter part hatched") {
  using gpipe::action_kind;
  using gpipe::detail::look_of;
  using gpipe::detail::tone;
  CHECK(look_of(action_kind::forward).drawn == tone::light);
  CHECK_FALSE(look_of(action_kind::forward).hatched);
  CHECK(look_of(action_kind::recompute).drawn == tone::light);
  CHECK(look_of(action_kind::recompute).hatched);
  CHECK(look_of(action_kind::backward).drawn == tone::dark);
  CHECK_FALSE(look_of(action_kind::backward).hatched);
  CHECK(look_of(action_kind::backward_input).drawn == tone::middle);
  CHECK_FALSE(look_of(action_kind::backward_input).hatched);
  CHECK(look_of(action_kind::backward_parameters).drawn == tone::dark);
  CHECK(look_of(action_kind::backward_parameters).hatched);
  CHECK_FALSE(look_of(action_kind::idle).shown);
  CHECK_FALSE(look_of(action_kind::receive_gradient).shown);
}

namespace {

std::string drawn(const std::vector<detail::bar_part>& parts) {
  std::ostringstream out;
  detail::write_stacked_bar(out, parts, "t", "a note", 900);
  return out.str();
}

}  // namespace

TEST_CASE("a legend has at most six parts per line, and the drawing grows with its lines") {
  std::vector<detail::bar_part> parts(6, {"six", 10, action_kind::idle, "#123456"});
  CHECK(drawn(parts).find("height=\"164\"") != std::string::npos);
  parts.push_back({"seventh", 40, action_kind::update, nullptr});
  const std::string seven = drawn(parts);
  CHECK(seven.find("height=\"208\"") != std::string::npos);
  CHECK(seven.find("class=\"key\" x=\"20.00\" y=\"152.00\"") != std::string::npos);  // begins the second line
  CHECK(seven.find("<title>seventh 40.0 %</title>") != std::string::npos);
  CHECK(seven.find("fill=\"#123456\"") != std::string::npos);
  CHECK(seven.find(">a note</text>") != std::string::npos);
}
