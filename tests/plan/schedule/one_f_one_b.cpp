#include <gpipe/plan/schedule/one_f_one_b.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

static_assert(one_f_one_b::at(3, 4, 0, 5) == cell{action_kind::backward, 0, 0});
static_assert(one_f_one_b::in_flight(4, 8, 0) == 4 && one_f_one_b::in_flight(4, 8, 3) == 1);
static_assert(one_f_one_b::in_flight(4, 2, 0) == 2);
static_assert(!one_f_one_b::admits(0, 1) && !one_f_one_b::admits(1, 0) && one_f_one_b::admits(1, 1));

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(one_f_one_b{}, 3, 4)) ==
        "tick     0   1   2   3   4   5   6   7   8   9   10  11\n"
        "stage 0  F0  .   F1  .   F2  B0  F3  B1  .   B2  .   B3\n"
        "stage 1  .   F0  .   F1  B0  F2  B1  F3  B2  .   B3  .\n"
        "stage 2  .   .   F0  B0  F1  B1  F2  B2  F3  B3  .   .\n");
}

TEST_CASE("a step has the duration of fill-drain's") {
  CHECK(one_f_one_b::makespan(4, 8, 1, 2) == 33);
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 16; ++M)
      CHECK(timetable(one_f_one_b{}, S, M).simulate(3, 5, 0) == one_f_one_b::makespan(S, M, 3, 5));
}
