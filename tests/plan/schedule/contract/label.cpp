#include <gpipe/plan/schedule/contract/label.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(label_of(instruction{action_kind::forward, 0, 12, -1}) == "F12");
static_assert(label_of(instruction{action_kind::send_gradient, 7, 0, 10}, true) == "7B0>10");
static_assert(label_of(cell{}) == ".");
static_assert(parse_instruction("3F1<2") == instruction{action_kind::receive_activation, 3, 1, 2});

TEST_CASE("every instruction prints and parses back") {
  for (int kind = 0; kind <= static_cast<int>(action_kind::update); ++kind)
    for (const int stage : {-1, 0, 9, 127})
      for (const int m : {0, 9, 10, 511}) {
        const action_kind what = static_cast<action_kind>(kind);
        const bool counted = what != action_kind::idle && what != action_kind::reduce && what != action_kind::update;
        const instruction it{what, stage, counted ? m : -1, is_send(what) || is_receive(what) ? 31 : -1};
        CAPTURE(std::string(label_of(it, true).text()));
        CHECK(parse_instruction(label_of(it, true)) == it);
        instruction nameless = it;
        nameless.stage = -1;
        CHECK(parse_instruction(label_of(it)) == nameless);
      }
}

TEST_CASE("the largest numbers fit and parse back") {
  const instruction max{action_kind::send_activation, 999'999'999, 999'999'999, 999'999'999};
  CHECK(parse_instruction(label_of(max, true)) == max);
  const instruction huge{action_kind::send_activation, 2147483647, 2147483647, 2147483647};
  CHECK(label_of(huge, true) == "2147483647F2147483647>2147483647");
}

TEST_CASE("the error of an invalid instruction contains its text") {
  for (const char* text : {"", "F", "X1", "F1>", "F1>x", "R1>2", "F1 ", "1", "reduce1", "F99999999999", "F-1", "f1"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_instruction(text), doctest::Contains(("'" + std::string(text) + "'").c_str()), error);
  }
}
