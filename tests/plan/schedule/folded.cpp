#include <gpipe/plan/schedule/folded.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/timetable/check.hpp>

using namespace gpipe;

static_assert(folded{fill_drain{}, 2}.workers(4) == 2 && folded{fill_drain{}, 2}.worker_of(4, 2) == 1);
static_assert(folded{fill_drain{}, 0}.workers(4) == 4 &&
              folded{fill_drain{}, 9}.ticks(4, 3) == fill_drain::ticks(4, 3));
static_assert(folded{zb_v{}, 1}.workers(4) == 1 && !folded{zb_v{}, 1}.admits(5, 4));
static_assert(detail::splits_backward(folded{zb_v{}, 1}, 4, 4) &&
              !detail::splits_backward(folded{fill_drain{}, 1}, 4, 4));

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(folded{fill_drain{}, 2}, 3, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15\n"
        "worker 0  0F1  .    0F0  1F1  .    1F0  .    .    .    .    .    1B0  0B0  1B1  0B1  .\n"
        "worker 1  .    .    .    .    2F1  .    2F0  .    2B0  .    2B1  .    .    .    .    .\n");
  CHECK(describe(timetable(schedule_choice(schedule_kind::fill_drain).on_workers(2), 3, 2)) ==
        describe(timetable(folded{fill_drain{}, 2}, 3, 2)));
}

TEST_CASE("blocks are contiguous, and their sizes differ by at most one") {
  for (int K = 1; K <= 9; ++K)
    for (int W = 1; W <= K; ++W) {
      const detail::fold how{K, W};
      CHECK(how.first(0) == 0);
      CHECK(how.first(W) == K);
      CHECK(how.size(0) == how.width());
      for (int w = 0; w < W; ++w) {
        CHECK(how.size(w) >= how.width() - 1);
        for (int k = how.first(w); k < how.first(w + 1); ++k) CHECK(how.block_of(k) == w);
      }
    }
}

TEST_CASE("a step on one worker takes as long as all its work") {
  CHECK(timetable(folded{one_f_one_b{}, 1}, 4, 6).simulate(1, 1, 1) == 4 * 6 * 3);
  CHECK(timetable(folded{one_f_one_b{}, 2}, 4, 6).simulate(1, 1, 1) < 4 * 6 * 3);
  CHECK(timetable(folded{one_f_one_b{}, 2}, 4, 6).simulate(1, 1, 1) > timetable(one_f_one_b{}, 4, 6).simulate(1, 1, 1));
}
