#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace gpipe;

namespace {

struct one_at_a_time {
  static constexpr bool trains = false;
  static constexpr const char* name() { return "one at a time"; }
  static constexpr bool admits(int stages, int) { return stages == 1; }
  static constexpr int workers(int) { return 1; }
  static constexpr int worker_of(int, int) { return 0; }
  static constexpr int ticks(int, int micro_batches) { return micro_batches; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr cell at(int, int, int, int tick) { return {action_kind::forward, 0, tick}; }
};
/// A schedule with a parameter, which its members use.
struct first_of {
  int wait;
  static constexpr bool trains = false;
  static constexpr const char* name() { return "first of"; }
  constexpr bool admits(int stages, int) const { return stages == 1 && wait >= 0; }
  static constexpr int workers(int) { return 1; }
  static constexpr int worker_of(int, int) { return 0; }
  constexpr int ticks(int, int micro_batches) const { return wait + micro_batches; }
  static constexpr int in_flight(int, int, int) { return 1; }
  constexpr cell at(int, int, int, int tick) const {
    return tick < wait ? cell{} : cell{action_kind::forward, 0, tick - wait};
  }
};
struct without_table {
  static constexpr const char* name() { return "none"; }
};
static_assert(scheduler<one_at_a_time>);
static_assert(scheduler<first_of>);
static_assert(!scheduler<without_table>);

}  // namespace

TEST_CASE("the error for numbers that are not admitted names the schedule") {
  CHECK_NOTHROW(detail::require_admitted(one_at_a_time{}, 1, 2));
  CHECK_THROWS_WITH_AS(detail::require_admitted(one_at_a_time{}, 3, 2),
                       doctest::Contains("one at a time does not admit 3 stages and 2 micro-batches"), error);
  CHECK_NOTHROW(detail::require_admitted(first_of{2}, 1, 2));
  CHECK_THROWS_AS(detail::require_admitted(first_of{-1}, 1, 2), error);
}

TEST_CASE("the remedy contains the nearest numbers that are admitted") {
  const auto rejected = [](const auto& schedule, int S, int M, const char* remedy) {
    CHECK_THROWS_WITH_AS(detail::require_admitted(schedule, S, M), doctest::Contains(remedy), error);
  };
  rejected(interleaved{3}, 9, 7, "; choose 3 or 12 stages, or 6 or 8 micro-batches, or another schedule");
  rejected(interleaved{}, 3, 8, "; choose 2 or 4 stages, or another schedule");
  rejected(zb_v{}, 1, 8, "; choose 2 stages, or another schedule");
  rejected(first_of{-1}, 1, 2, "; choose another schedule");
}

static_assert(tick_run{action_kind::forward, 2, 3, 4, 10, -2}.last() == 6);
static_assert(tick_run{action_kind::forward, 2, 3, 4, 10, -2}.tick_of(5) == 6);
static_assert(tick_run{action_kind::forward, 2, 3, 4, 10, -2}.at(5) == cell{action_kind::forward, 2, 5});

static_assert(tick_runs_of<fill_drain>::count == 2 && tick_runs_of<one_f_one_b>::count == 2);
static_assert(tick_runs_of<forward_only>::count == 1);
static_assert(tick_runs_of<zb_v>::count == 0);

namespace {

// A derived schedule with another `at` does not inherit the tick runs of its base.
struct other : fill_drain {};
static_assert(tick_runs_of<other>::count == 0);

template <class Schedule>
void rows_are_their_runs(Schedule schedule, int S, int M) {
  if (!schedule.admits(S, M)) return;
  for (int w = 0; w < schedule.workers(S); ++w) {
    std::vector<cell> row(static_cast<std::size_t>(schedule.ticks(S, M)));
    for (int i = 0; i < tick_runs_of<Schedule>::count; ++i) {
      const tick_run x = tick_runs_of<Schedule>::at(schedule, S, M, w, i);
      for (int m = x.first; m < x.first + x.count; ++m) row.at(static_cast<std::size_t>(x.tick_of(m))) = x.at(m);
    }
    bool same = true;
    for (std::size_t t = 0; t < row.size(); ++t) same = same && row[t] == schedule.at(S, M, w, static_cast<int>(t));
    CAPTURE(schedule.name());
    CAPTURE(S);
    CAPTURE(M);
    CAPTURE(w);
    REQUIRE(same);
  }
}

}  // namespace

TEST_CASE("the tick runs of a schedule are the cells of its table") {
  for (const schedule_kind kind : schedule_kinds)
    with_schedule(kind, [](auto schedule) {
      if constexpr (tick_runs_of<decltype(schedule)>::count > 0) {
        for (int S = 1; S <= 8; ++S)
          for (int M = 1; M <= 16; ++M) rows_are_their_runs(schedule, S, M);
        for (const auto& [S, M] : {std::pair(128, 512), {128, 32}, {37, 211}, {211, 37}})
          rows_are_their_runs(schedule, S, M);
      }
    });
}
