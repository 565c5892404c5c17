#include <gpipe/plan/schedule/v_min.hpp>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

#include <doctest/doctest.h>

#include "support/schedules.hpp"

using namespace gpipe;

static_assert(v_min::worker_of(8, 1) == 1 && v_min::worker_of(8, 6) == 1 && v_min::worker_of(8, 7) == 0);
static_assert(v_min::admits(2, 1) && !v_min::admits(1, 1) && !v_min::admits(5, 4) && !v_min::admits(4, 0));

TEST_CASE("the table of V-Min") {
  CHECK(describe(timetable(v_min{}, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16\n"
        "worker 0  0F0  .    .    3F0  3I0  3W0  0F1  0I0  0W0  3F1  3I1  3W1  .    0I1  0W1  .    .\n"
        "worker 1  .    1F0  2F0  .    .    2I0  1I0  1F1  2F1  2W0  1W0  2I1  1I1  .    .    2W1  1W1\n");
}

TEST_CASE("V-Min holds at most 2 K / 3 + 3 chunk inputs, and a step takes at most 6 M + 4 K parts") {
  for (int K = 1; K <= 14; ++K) {
    CHECK(schedules::most_in_flight(v_min{}, 2 * K, 4 * K) <= 2 * K / 3 + 3);
    CHECK(timetable(v_min{}, 2 * K, 4 * K).makespan(1, 1, 1) <= 24 * K + 4 * K);
  }
  CHECK(schedules::most_in_flight(v_min{}, 16, 32) == 8);  // 1F1B's first worker: 16 halves
  CHECK(timetable(v_min{}, 16, 32).bubble() == doctest::Approx(27.0 / 219));
}
