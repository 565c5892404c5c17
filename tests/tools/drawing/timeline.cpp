#include <gpipe/tools/drawing/timeline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/svg.hpp"

using gpipe::action_kind;
using gpipe::timeline_options;
using gpipe::timeline_rows;
using gpipe::trace_event;
using laws::svg;

namespace {

std::string drawn(const std::vector<trace_event>& events, const timeline_options& how = {}) {
  std::ostringstream out;
  gpipe::write_timeline(out, events, how);
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
std::vector<trace_event> step() {
  const auto ms = [](int begin, int end, action_kind kind, int stage, int micro_batch) {
    return trace_event{begin * 1'000'000, end * 1'000'000, kind, stage, micro_batch};
  };
  return {ms(10, 11, action_kind::forward, 0, 1),         ms(11, 12, action_kind::forward, 0, 0),
          ms(11, 12, action_kind::forward, 1, 1),         ms(12, 13, action_kind::forward, 1, 0),
          ms(13, 15, action_kind::backward, 1, 0),        ms(15, 17, action_kind::backward, 0, 0),
          ms(15, 16, action_kind::recompute, 1, 1),       ms(16, 18, action_kind::backward, 1, 1),
          ms(17, 18, action_kind::recompute, 0, 1),       ms(18, 20, action_kind::backward, 0, 1),
          ms(12, 15, action_kind::receive_gradient, 0, 0)};
}

}  // namespace

TEST_CASE("the test detects unbalanced tags") {
  CHECK(balanced("<a><b x=\"1\"/><c>t</c></a>"));
  for (const auto* bad : {"<a>", "<a></b>", "</a>", "<a x=\"1/>", "<a><b></a></b>", "<a"}) CHECK_FALSE(balanced(bad));
}

TEST_CASE("a drawing has a box per event, a lane per stage, and is well formed") {
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
  for (trace_event e : step()) e.replica = 1, events.push_back(e);
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
  CHECK(count(text, "waits 30 %") == 2);                                                // each works 7 of 10 ms
}

TEST_CASE("a number is drawn only if it fits") {
  std::vector<trace_event> events;
  // 10.4 pixels each: too narrow for three digits
  for (int m = 0; m < 50; ++m) events.push_back({m * 1000, m * 1000 + 1000, action_kind::forward, 0, 100 + m});
  events.push_back({50'000, 100'000, action_kind::backward, 0, 149});
  const auto text = drawn(events);
  CHECK(count(text, "class=\"event\"") == 51);
  CHECK(count(text, "class=\"light\"") == 0);
  CHECK(count(text, "class=\"dark\"") == 1);
}

TEST_CASE("titles are escaped") {
  const auto text = drawn(step(), {.title = "S<4 & \"M\""});
  CHECK(balanced(text));
  CHECK(count(text, "S&lt;4 &amp; &quot;M&quot;") == 2);
}

TEST_CASE("odd events give a valid drawing") {
  CHECK(balanced(drawn({})));
  CHECK(balanced(drawn({{5, 5, action_kind::forward, 0, 0}})));
  CHECK(balanced(drawn({{0, 1, action_kind::forward, 300, 7}})));
  CHECK(balanced(drawn({{0, INT64_MAX / 2, action_kind::update, 0, -1}})));
  CHECK(count(drawn({{0, 9, action_kind::forward, -1, 0}}), "class=\"event\"") == 0);
}

TEST_CASE("both parts of backward in one, the input part and the parameter part look different") {
  std::vector<trace_event> events;
  std::int64_t at = 0;
  for (const auto kind : {action_kind::forward, action_kind::recompute, action_kind::backward,
                          action_kind::backward_input, action_kind::backward_parameters})
    events.push_back({at, at + 10, kind, 0, 0}), at += 10;
  const svg drawing(drawn(events));
  const auto fill = [&](const char* kind) { return drawing.boxes(std::string(kind) + " 0,").at(0)["fill"]; };
  CHECK(fill("backward") != fill("backward input"));
  CHECK(fill("forward") != fill("backward input"));
  CHECK(fill("backward") == fill("backward parameters"));
  CHECK(drawing.of("hatch").size() == 2 * 2);  // recompute and the parameter part, with their keys
  CHECK(drawing.of("key").size() == 5);
}

TEST_CASE("time in which the thread was not running is hatched grey, and neither work nor waiting") {
  auto events = step();
  events[4].not_running_ns = 500'000;  // of the 2 ms of backward 0 in stage 1
  const svg drawing(drawn(events));
  const auto grey = drawing.of("not-running");
  REQUIRE(grey.size() == 1);
  CHECK(grey[0]["fill"] == "url(#absent)");
  const auto box = drawing.boxes("backward 0, stage 1").at(0);
  CHECK(std::abs(grey[0].number("width") - box.number("width") / 4) < 1);  // pixel: the gap behind a box
  CHECK(grey[0].right() == doctest::Approx(box.right()));
  CHECK(grey[0].number("y") == box.number("y"));
  CHECK(box.hint == "backward 0, stage 1: 3.000 to 5.000 ms, 0.500 ms of it not running");
  CHECK(grey[0].hint == box.hint);
  const auto notes = drawing.words("faint");
  for (const char* expected : {"not running", "waits 30 %, not running 5 %", "waits 30 %"})
    CHECK(std::count(notes.begin(), notes.end(), expected) == 1);
  for (const std::string& note : svg(drawn(step())).words("faint")) CHECK(note.find("not running") == note.npos);
}

TEST_CASE("time in which no thread ran is cut, and the axis says so") {
  auto events = step();
  for (trace_event& e : events)  // all threads lose their cores for 200 ms, in backward 0 of stage 1
    for (std::int64_t* at : {&e.begin_ns, &e.end_ns})
      if (*at >= 14'000'000) *at += 200'000'000;
  events[4].not_running_ns = 200'000'000;
  const svg drawing(drawn(events));
  CHECK(drawing.words("cut") == std::vector<std::string>{"cut 200 ms"});
  CHECK(drawing.root().number("width") < 1400);
  // An action that ran is as wide as without the cut, but for the mark.
  const double before = svg(drawn(step())).boxes("forward 1, stage 0").at(0).number("width");
  CHECK(drawing.boxes("forward 1, stage 0").at(0).number("width") == doctest::Approx(before).epsilon(0.05));
  CHECK(drawing.boxes("backward 1, stage 0").at(0).number("width") == doctest::Approx(2 * before).epsilon(0.05));
  const auto grey = drawing.of("not-running");
  REQUIRE(grey.size() == 1);
  CHECK(grey[0].number("width") < before);
  CHECK(grey[0].hint == "backward 0, stage 1: 3.000 to 205.000 ms, 200.000 ms of it not running");

  events[2].end_ns = 150'000'000;  // one thread ran on: nothing is cut before it ends
  CHECK(svg(drawn(events)).words("cut") == std::vector<std::string>{"cut 65 ms"});
  for (trace_event& e : events) e.not_running_ns = e.end_ns - e.begin_ns - e.waited_ns;  // all actions sleep
  CHECK(svg(drawn(events)).words("cut").empty());
  CHECK(svg(drawn(step())).words("cut").empty());
}

TEST_CASE("the time in which an action waited is background") {
  auto events = step();
  events[4].waited_ns = 1'000'000;  // of backward 0 in stage 1, from 3 to 5 ms
  const svg drawing(drawn(events));
  const auto box = drawing.boxes("backward 0, stage 1").at(0), whole = drawing.boxes("backward 0, stage 0").at(0);
  CHECK(box.number("x") == doctest::Approx(76 + 0.4 * 1040));
  CHECK(std::abs(box.number("width") - whole.number("width") / 2) < 1);
  CHECK(box.hint == "backward 0, stage 1: 3.000 to 5.000 ms, 1.000 ms of it waiting");
  const auto notes = drawing.words("faint");
  CHECK(std::count(notes.begin(), notes.end(), "waits 40 %") == 1);
}

TEST_CASE("a worker with several stages has a row, above the rows of the stages") {
  auto events = step();
  for (trace_event& e : events) e.worker = 0;
  events.push_back({10'000'000, 20'000'000, action_kind::forward, 2, 0, 0, 1});
  const svg drawing(drawn(events));
  CHECK(drawing.words("row") == std::vector<std::string>{"worker 0", "worker 1", "stage 0", "stage 1", "stage 2"});
  REQUIRE(drawing.of("lane").size() == 5 + 1);  // and the key
  const auto forward = drawing.boxes("forward 1, stage 1");
  REQUIRE(forward.size() == 2);
  CHECK(forward[0].number("x") == forward[1].number("x"));
  CHECK(forward[0].bottom() == drawing.of("lane").at(1).bottom());
  CHECK(forward[1].number("y") == drawing.of("lane").at(4).number("y"));
  // A later stage of the worker has lower boxes.
  CHECK(forward[0].number("y") > drawing.boxes("forward 1, stage 0").at(0).number("y"));
  // The rows of stages stand apart.
  const auto lanes = drawing.of("lane");
  const auto gap = [&](std::size_t row) { return lanes.at(row + 1).number("y") - lanes.at(row).bottom(); };
  CHECK(gap(2) > gap(1));  // lane 0 is the key
  CHECK(forward[0].hint == "forward 1, stage 1, worker 0: 1.000 to 2.000 ms");

  CHECK(svg(drawn(events, {.rows = timeline_rows::workers})).words("row") ==
        std::vector<std::string>{"worker 0", "worker 1"});
  CHECK(svg(drawn(events, {.rows = timeline_rows::stages})).words("row") ==
        std::vector<std::string>{"stage 0", "stage 1", "stage 2"});
  for (trace_event& e : events) e.worker = e.stage;
  CHECK(svg(drawn(events)).words("row") == std::vector<std::string>{"stage 0", "stage 1", "stage 2"});
}

TEST_CASE("the rows of workers are those of all replicas") {
  auto events = step();
  for (trace_event& e : events) e.worker = 0;
  for (trace_event e : std::vector<trace_event>(events)) e.replica = 1, events.push_back(e);
  CHECK(svg(drawn(events)).words("row") ==
        std::vector<std::string>{"0: worker 0", "1: worker 0", "0: stage 0", "0: stage 1", "1: stage 0", "1: stage 1"});
}

TEST_CASE("a drawing is wide enough to show its actions, unless a width is given") {
  std::vector<trace_event> events;
  for (int m = 0; m < 180; ++m) events.push_back({m * 10'000, m * 10'000 + 5000, action_kind::forward, 0, m});
  const svg drawing(drawn(events));
  CHECK(drawing.of("event").at(7).number("width") >= 4);
  CHECK(drawing.root().number("width") > 12 * 180);
  CHECK(svg(drawn(events, {.width = 900})).root().number("width") == 900);
  CHECK(svg(drawn(step())).root().number("width") == 1200);
  // The shortest action is still visible, and the drawing is never wider than a screen can scroll.
  events.push_back({5'000'000, 60'000'000'000, action_kind::update, 0, -1});
  const svg wide(drawn(events));
  CHECK(wide.root().number("width") <= 2600);
  for (const auto& box : wide.of("event")) CHECK(box.number("width") >= 0.5);
}

TEST_CASE("a window shows a part of the step") {
  const svg drawing(drawn(step(), {.from_ns = 4'000'000, .to_ns = 6'000'000}));
  const auto boxes = drawing.of("event");
  REQUIRE(boxes.size() == 3);
  CHECK(boxes[0].hint == "backward 0, stage 1: 3.000 to 5.000 ms");  // half of it
  CHECK(boxes[0].number("x") == 76);
  CHECK(boxes[0].number("width") == doctest::Approx(520).epsilon(0.01));
  CHECK(boxes[1].hint == "backward 0, stage 0: 5.000 to 7.000 ms");
  CHECK(boxes[1].number("width") == doctest::Approx(520).epsilon(0.01));
  CHECK(svg(drawn(step())).words("tick").front() == "0");
  CHECK(drawing.words("tick").front() == "4.0");
  CHECK(drawing.words("tick").back() == "6.0");
  const auto notes = drawing.words("faint");
  CHECK(std::count(notes.begin(), notes.end(), "waits 50 %") == 1);
  CHECK(std::count(notes.begin(), notes.end(), "waits 0 %") == 1);
}

TEST_CASE("ticks are round") {
  using gpipe::detail::round_step;
  CHECK(round_step(42, 10) == doctest::Approx(5));
  CHECK(round_step(100, 10) == doctest::Approx(10));
  CHECK(round_step(0.013, 10) == doctest::Approx(0.002));
  CHECK(round_step(101, 10) == doctest::Approx(20));
}

TEST_CASE("an error names the path that cannot be written") {
  CHECK_THROWS_WITH_AS(gpipe::write_timeline("no/such/folder/t.svg", step()), doctest::Contains("no/such/folder/t.svg"),
                       gpipe::error);
}
