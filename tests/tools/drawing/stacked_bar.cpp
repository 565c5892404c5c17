#include <gpipe/tools/drawing/stacked_bar.hpp>

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

using namespace gpipe;

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
