#include <gpipe/plan/schedule/fill_drain.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(fill_drain::at(3, 2, 0, 0) == cell{action_kind::forward, 0, 1});
static_assert(fill_drain::at(3, 2, 1, 5) == cell{action_kind::backward, 1, 0});
static_assert(fill_drain::at(3, 2, 1, 3) == cell{});
static_assert(fill_drain::in_flight(4, 8, 3) == 8);
static_assert(fill_drain::returned_slots(4, 8, 1, 0) == 2);
static_assert(fill_drain::returned_slots(4, 8, 1, 0, 2, 4) == 7);  // 4 wait for their parameter part, 2 are on the way
static_assert(!fill_drain::admits(0, 1) && !fill_drain::admits(1, 0) && fill_drain::admits(1, 1));

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(fill_drain{}, 3, 2)) ==
        "tick     0   1   2   3   4   5   6   7\n"
        "stage 0  F1  F0  .   .   .   .   B0  B1\n"
        "stage 1  .   F1  F0  .   .   B0  B1  .\n"
        "stage 2  .   .   F1  F0  B0  B1  .   .\n");
  CHECK(describe(timetable(fill_drain{}, 1, 3)) ==
        "tick     0   1   2   3   4   5\n"
        "stage 0  F2  F1  F0  B0  B1  B2\n");
}

TEST_CASE("the duration of a step is that of the paper's schedule") {
  CHECK(fill_drain::makespan(4, 8, 1, 2) == 33);
  CHECK(fill_drain::makespan(8, 32, 1, 2) == 117);
  CHECK(fill_drain::makespan(4, 8, 1, 3) == 44);
}
