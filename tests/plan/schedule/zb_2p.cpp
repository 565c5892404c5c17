#include <gpipe/plan/schedule/zb_2p.hpp>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

#include <doctest/doctest.h>

#include "support/schedules.hpp"

using namespace gpipe;

static_assert(zb_2p::at(3, 6, 2, 12) == cell{action_kind::backward_parameters, 2, 0});
static_assert(zb_2p::in_flight(4, 8, 3) == 7 && zb_2p::in_flight(4, 2, 0) == 2);
static_assert(zb_2p::ticks(4, 8) == 3 * 8 + 3 && zb_2p::ticks(4, 2) == 3 * 7 + 3);

TEST_CASE("the table of ZB-2p") {
  CHECK(describe(timetable(zb_2p{}, 3, 6)) ==
        "tick     0   1   2   3   4   5   6   7   8   9   10  11  12  13  14  15  16  17  18  19\n"
        "stage 0  F0  F1  F2  F3  F4  I0  W0  F5  I1  W1  I2  W2  I3  W3  I4  W4  I5  W5  .   .\n"
        "stage 1  .   F0  F1  F2  I0  F3  I1  F4  I2  W0  F5  I3  W1  I4  W2  I5  W3  W4  W5  .\n"
        "stage 2  .   .   F0  I0  F1  I1  F2  I2  F3  I3  F4  I4  W0  F5  I5  W1  W2  W3  W4  W5\n");
}

TEST_CASE("ZB-2p is never idle between a worker's first cell and its last, and holds 2 S - 1 micro-batches") {
  for (int S = 1; S <= 8; ++S)
    for (int M = 2 * S - 1; M <= 4 * S; ++M) {
      for (int w = 0; w < S; ++w)
        for (int t = 0; t < zb_2p::ticks(S, M); ++t)
          CHECK((zb_2p::at(S, M, w, t).kind == action_kind::idle) == (t < w || t >= w + 3 * M));
      CHECK(schedules::most_in_flight(zb_2p{}, S, M) == 2 * S - 1);
    }
}

TEST_CASE("a step of ZB-2p with equal parts takes 3 M + S - 1 of them") {
  CHECK(timetable(zb_2p{}, 8, 32).makespan(1, 1, 1) == 3 * 32 + 7);
  CHECK(timetable(zb_2p{}, 8, 32).bubble() == doctest::Approx(7.0 / 103));
}
