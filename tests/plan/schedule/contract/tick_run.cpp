#include <gpipe/plan/schedule/contract/tick_run.hpp>

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace gpipe;

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
void rows_are_their_stretches(Schedule schedule, int S, int M) {
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
          for (int M = 1; M <= 16; ++M) rows_are_their_stretches(schedule, S, M);
        for (const auto& [S, M] : {std::pair(128, 512), {128, 32}, {37, 211}, {211, 37}})
          rows_are_their_stretches(schedule, S, M);
      }
    });
}
