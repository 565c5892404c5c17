#include <gpipe/plan/schedule/zb_h1.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

static_assert(zb_h1::at(3, 4, 2, 8) == cell{action_kind::backward_parameters, 2, 0});
static_assert(zb_h1::in_flight(4, 8, 3) == 4 && zb_h1::in_flight(4, 2, 0) == 2);
static_assert(zb_h1::ticks(4, 8) == 3 * 8 + 3);

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(zb_h1{}, 3, 4)) ==
        "tick     0   1   2   3   4   5   6   7   8   9   10  11  12  13\n"
        "stage 0  F0  .   F1  .   F2  I0  W0  F3  I1  W1  I2  W2  I3  W3\n"
        "stage 1  .   F0  .   F1  I0  F2  I1  W0  F3  I2  W1  I3  W2  W3\n"
        "stage 2  .   .   F0  I0  F1  I1  F2  I2  W0  F3  I3  W1  W2  W3\n");
}

TEST_CASE("it runs with fewer micro-batches than stages") {
  CHECK(describe(timetable(zb_h1{}, 4, 2)) ==
        "tick     0   1   2   3   4   5   6   7   8   9   10\n"
        "stage 0  F0  .   F1  .   .   .   .   I0  W0  I1  W1\n"
        "stage 1  .   F0  .   F1  .   .   I0  .   I1  W0  W1\n"
        "stage 2  .   .   F0  .   F1  I0  .   I1  W0  W1  .\n"
        "stage 3  .   .   .   F0  I0  F1  I1  W0  W1  .   .\n");
}
