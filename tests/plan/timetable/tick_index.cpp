#include <gpipe/plan/timetable/tick_index.hpp>

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

constexpr int backward_of(int stage, int m) {
  detail::tick_index<zb_v> table(zb_v{}, 4, 3);
  return table.of(stage)[m].backward;
}
static_assert(backward_of(3, 1) == 7 && backward_of(0, 2) == 16);

TEST_CASE("rows give the tick of each cell, and of the cell before it") {
  detail::tick_index<one_f_one_b> table(one_f_one_b{}, 3, 4);
  const detail::cell_ticks* first = table.of(0);
  CHECK(first[0].forward == 0);
  CHECK(first[0].before_forward == -1);
  CHECK(first[3].forward == 6);
  CHECK(first[3].before_forward == 5);
  CHECK(first[3].backward == 11);
  CHECK(first[3].before_backward == 9);
}

TEST_CASE("a stage's ticks are those of its worker's row") {
  detail::tick_index<interleaved> table(interleaved{2}, 6, 6);
  for (int w = 0; w < 3; ++w) {
    int cells = 0;
    table.walk(w, [&](int t, const cell& c) {
      CHECK(table.worker_of(c.stage) == w);
      const detail::cell_ticks& at = table.of(c.stage)[c.micro_batch];
      CHECK((c.kind == action_kind::forward ? at.forward : at.backward) == t);
      ++cells;
    });
    CHECK(cells == 2 * 2 * 6);
  }
}

TEST_CASE("parameter parts that come together are done together") {
  detail::tick_index<fill_drain> table(fill_drain{}, 2, 5, 2);
  const detail::cell_ticks* first = table.of(0);
  for (int m = 0; m < 5; ++m) CHECK(first[m].retired == first[m < 2 ? 1 : m < 4 ? 3 : 4].backward);
  CHECK(table.first_with(3) == 2);
  CHECK(table.last_with(4) == 4);
}

TEST_CASE("a cell that never runs has no tick") {
  detail::tick_index<forward_only> table(forward_only{}, 2, 2);
  CHECK(table.of(1)[1].forward == 2);
  CHECK(table.of(1)[1].backward == -1);
}
