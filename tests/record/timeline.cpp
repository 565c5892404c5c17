#include <gpipe/record/timeline.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using gpipe::action_kind;
using gpipe::event;

namespace {

std::string drawn(const std::vector<event>& events, const std::string& title = "one step") {
  std::ostringstream out;
  gpipe::write_timeline(out, events, title);
  return out.str();
}

/// Returns true if every open tag is closed in order and every attribute is quoted.
bool balanced(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != text.npos; at = text.find('<', at)) {
    const auto end = text.find('>', at);
    if (end == text.npos) return false;
    std::string_view tag = text.substr(at + 1, end - at - 1);
    int quotes = 0;
    for (const char c : tag) quotes += c == '"';
    if (quotes % 2 != 0 || tag.empty() || tag.find('<') != tag.npos) return false;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.emplace_back(tag.substr(0, tag.find(' ')));
    }
    at = end;
  }
  return open.empty() && text.find("NaN") == text.npos && text.find("nan") == text.npos &&
         text.find("inf\"") == text.npos;
}

int count(std::string_view text, std::string_view part) {
  int n = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// F1 F0 B0 R1 B1 on each of two stages, in milliseconds.
std::vector<event> step() {
  const auto ms = [](int begin, int end, action_kind kind, int stage, int micro_batch) {
    return event{begin * 1'000'000, end * 1'000'000, kind, stage, micro_batch};
  };
  return {ms(10, 11, action_kind::forward, 0, 1),    ms(11, 12, action_kind::forward, 0, 0),
          ms(11, 12, action_kind::forward, 1, 1),    ms(12, 13, action_kind::forward, 1, 0),
          ms(13, 15, action_kind::backward, 1, 0),   ms(15, 17, action_kind::backward, 0, 0),
          ms(15, 16, action_kind::recompute, 1, 1),  ms(16, 18, action_kind::backward, 1, 1),
          ms(17, 18, action_kind::recompute, 0, 1),  ms(18, 20, action_kind::backward, 0, 1),
          ms(12, 15, action_kind::receive_gradient, 0, 0)};
}

}  // namespace

TEST_CASE("the test detects unbalanced tags") {
  CHECK(balanced("<a><b x=\"1\"/><c>t</c></a>"));
  for (const auto* bad : {"<a>", "<a></b>", "</a>", "<a x=\"1/>", "<a><b></a></b>", "<a"}) CHECK_FALSE(balanced(bad));
}

TEST_CASE("a picture has a box per event, a lane per stage, and is well formed") {
  const auto text = drawn(step());
  CHECK(balanced(text));
  CHECK(text.substr(0, 5) == "<svg ");
  CHECK(count(text, "class=\"event\"") == 10);  // the transfer is not drawn
  CHECK(count(text, ">stage 0</text>") == 1);
  CHECK(count(text, ">stage 1</text>") == 1);
  CHECK(count(text, ">stage 2</text>") == 0);
  CHECK(count(text, "class=\"light\"") + count(text, "class=\"dark\"") == 10);
  CHECK(count(text, "class=\"key\"") == 3);  // forward, recompute, backward
  CHECK(count(text, "backward 1, stage 0: 8.000 to 10.000 ms") == 1);
  CHECK(count(text, "http") == 1);  // the namespace: nothing is fetched
}

TEST_CASE("each replica has its own lanes") {
  auto events = step();
  for (event e : step()) e.replica = 1, events.push_back(e);
  const auto text = drawn(events);
  CHECK(balanced(text));
  for (const char* name : {">0: stage 0<", ">0: stage 1<", ">1: stage 0<", ">1: stage 1<"})
    CHECK(count(text, name) == 1);
  CHECK(count(text, "waits 30 %") == 4);
  CHECK(count(text, "backward 1, 1: stage 0: 8.000 to 10.000 ms") == 1);
}

TEST_CASE("lengths are proportional to times: 10 ms over the whole lane") {
  const auto text = drawn(step());
  CHECK(count(text, "x=\"76.00\" y=\"74.00\" width=\"1040.00\"") == 1);                 // the lane
  CHECK(count(text, "class=\"event\" x=\"76.00\" y=\"74.00\" width=\"103.20\"") == 1);  // 1 ms minus a gap
  CHECK(count(text, "waits 30 %") == 2);  // each works 7 of 10 ms
}

TEST_CASE("a number is drawn only if it fits") {
  std::vector<event> events;
  // 10.4 pixels each: too narrow for three digits
  for (int m = 0; m < 50; ++m) events.push_back({m * 1000, m * 1000 + 1000, action_kind::forward, 0, 100 + m});
  events.push_back({50'000, 100'000, action_kind::backward, 0, 149});
  const auto text = drawn(events);
  CHECK(count(text, "class=\"event\"") == 51);
  CHECK(count(text, "class=\"light\"") == 0);
  CHECK(count(text, "class=\"dark\"") == 1);
}

TEST_CASE("titles are escaped") {
  const auto text = drawn(step(), "S<4 & \"M\"");
  CHECK(balanced(text));
  CHECK(count(text, "S&lt;4 &amp; &quot;M&quot;") == 2);
}

TEST_CASE("odd events give a valid picture") {
  CHECK(balanced(drawn({})));
  CHECK(balanced(drawn({{5, 5, action_kind::forward, 0, 0}})));
  CHECK(balanced(drawn({{0, 1, action_kind::forward, 300, 7}})));
  CHECK(balanced(drawn({{0, INT64_MAX / 2, action_kind::update, 0, -1}})));
  CHECK(count(drawn({{0, 9, action_kind::forward, -1, 0}}), "class=\"event\"") == 0);
}

TEST_CASE("ticks are round") {
  using gpipe::detail::round_step;
  CHECK(round_step(42, 10) == doctest::Approx(5));
  CHECK(round_step(100, 10) == doctest::Approx(10));
  CHECK(round_step(0.013, 10) == doctest::Approx(0.002));
  CHECK(round_step(101, 10) == doctest::Approx(20));
}

TEST_CASE("an error names the path that cannot be written") {
  CHECK_THROWS_WITH_AS(gpipe::write_timeline("no/such/folder/t.svg", step()),
                       doctest::Contains("no/such/folder/t.svg"), gpipe::error);
}
