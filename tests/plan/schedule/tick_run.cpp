#include <gpipe/plan/schedule/tick_run.hpp>

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <utility>
#include <vector>

using namespace gpipe;

static_assert(stretch{act::forward, 2, 3, 4, 10, -2}.last() == 6);
static_assert(stretch{act::forward, 2, 3, 4, 10, -2}.tick_of(5) == 6);
static_assert(stretch{act::forward, 2, 3, 4, 10, -2}.at(5) == cell{act::forward, 2, 5});

static_assert(stretches_of<fill_drain>::count == 2 && stretches_of<one_f_one_b>::count == 2);
static_assert(stretches_of<forward_only>::count == 1);
static_assert(stretches_of<zb_v>::count == 0);

namespace {

// What another schedule replaces is not in the stretches of the one it is made of.
struct other : fill_drain {};
static_assert(stretches_of<other>::count == 0);

template <class Schedule>
void rows_are_their_stretches(Schedule schedule, int S, int M) {
  if (!schedule.admits(S, M)) return;
  for (int w = 0; w < schedule.workers(S); ++w) {
    std::vector<cell> row(static_cast<std::size_t>(schedule.ticks(S, M)));
    for (int i = 0; i < stretches_of<Schedule>::count; ++i) {
      const stretch x = stretches_of<Schedule>::at(schedule, S, M, w, i);
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

TEST_CASE("the stretches of every schedule that has them are the cells of its table") {
  for (const schedule_kind kind : schedule_kinds)
    with_schedule(kind, [](auto schedule) {
      if constexpr (stretches_of<decltype(schedule)>::count > 0) {
        for (int S = 1; S <= 8; ++S)
          for (int M = 1; M <= 16; ++M) rows_are_their_stretches(schedule, S, M);
        for (const auto& [S, M] : {std::pair(128, 512), {128, 32}, {37, 211}, {211, 37}})
          rows_are_their_stretches(schedule, S, M);
      }
    });
}
