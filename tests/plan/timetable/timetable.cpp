#include <gpipe/plan/timetable/timetable.hpp>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

static_assert(timetable(fill_drain{}, 4, 16).bubble() < 0.16);
static_assert(timetable(fill_drain{}, 128, 512).bubble() == 127.0 / 639);  // by formula: no table is run
static_assert(timetable(fill_drain{}, 8, 32).simulate(1, 1, 1) == 117);

namespace {

/// Two stages on one worker, backward in two parts: what later schedules need.
struct two_on_one {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "two on one"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages == 2 && micro_batches == 1; }
  static constexpr int workers(int) { return 1; }
  static constexpr int worker_of(int, int) { return 0; }
  static constexpr int ticks(int, int) { return 6; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr cell at(int, int, int, int tick) {
    constexpr cell cells[] = {{action_kind::forward, 0, 0},
                              {action_kind::forward, 1, 0},
                              {action_kind::backward_input, 1, 0},
                              {action_kind::backward_input, 0, 0},
                              {action_kind::backward_parameters, 1, 0},
                              {action_kind::backward_parameters, 0, 0}};
    return cells[tick];
  }
};

}  // namespace

TEST_CASE("the bubble is (S - 1) / (M + S - 1), by formula and by simulation") {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 16; ++M) {
      CAPTURE(S);
      CAPTURE(M);
      const timetable drain(fill_drain{}, S, M);
      CHECK(drain.bubble() == doctest::Approx(static_cast<double>(S - 1) / (M + S - 1)));
      CHECK(drain.makespan(3, 2, 4) == drain.simulate(3, 2, 4));
      const timetable forward(forward_only{}, S, M);
      CHECK(forward.bubble() == doctest::Approx(static_cast<double>(S - 1) / (M + S - 1)));
      CHECK(forward.makespan(3, 2, 4) == forward.simulate(3, 2, 4));
    }
}

TEST_CASE("a table draws itself") {
  CHECK(describe(timetable(fill_drain{}, 2, 2)) ==
        "tick     0   1   2   3   4   5\n"
        "stage 0  F1  F0  .   .   B0  B1\n"
        "stage 1  .   F1  F0  B0  B1  .\n");
  CHECK(describe(timetable(forward_only{}, 1, 11)) ==
        "tick     0    1    2    3    4    5    6    7    8    9    10\n"
        "stage 0  F0   F1   F2   F3   F4   F5   F6   F7   F8   F9   F10\n");
  CHECK(describe(timetable(two_on_one{}, 2, 1)) ==
        "tick      0    1    2    3    4    5\n"
        "worker 0  0F0  1F0  1I0  0I0  1W0  0W0\n");
}

TEST_CASE("split backward and stages that share a worker are timed") {
  const timetable table(two_on_one{}, 2, 1);
  CHECK(table.makespan(5, 3, 2) == 20);
  CHECK(table.bubble() == 0);
}

TEST_CASE("inadmissible numbers are rejected, naming the schedule") {
  CHECK_THROWS_WITH_AS(timetable(fill_drain{}, 0, 4), doctest::Contains("fill-drain does not admit 0 stages"), error);
  CHECK_THROWS_WITH_AS(timetable(fill_drain{}, 2, 0), doctest::Contains("0 micro-batches"), error);
}
