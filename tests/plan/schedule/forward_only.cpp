#include <gpipe/plan/schedule/forward_only.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(forward_only::at(3, 2, 2, 3) == cell{action_kind::forward, 2, 1});
static_assert(!forward_only::trains && forward_only::in_flight(4, 8, 0) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(forward_only{}, 3, 2)) ==
        "tick     0   1   2   3\n"
        "stage 0  F0  F1  .   .\n"
        "stage 1  .   F0  F1  .\n"
        "stage 2  .   .   F0  F1\n");
}
