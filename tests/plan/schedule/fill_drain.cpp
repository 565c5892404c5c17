#include <gpipe/plan/schedule/fill_drain.hpp>

#include <gpipe/plan/schedule/contract/label.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;
using namespace gpipe::detail;

static std::string row(int stages, int micro_batches, int worker) {
  std::string text;
  for (int t = 0; t < fill_drain::ticks(stages, micro_batches); ++t)
    text.append(t ? " " : "").append(label_of(fill_drain::at(stages, micro_batches, worker, t)).text());
  return text;
}

static_assert(fill_drain::at(3, 2, 0, 0) == cell{action_kind::forward, 0, 1});
static_assert(fill_drain::at(3, 2, 1, 5) == cell{action_kind::backward, 1, 0});
static_assert(fill_drain::at(3, 2, 1, 3) == cell{});
static_assert(fill_drain::in_flight(4, 8, 3) == 8);
static_assert(fill_drain::returned_slots(4, 8, 1, 0) == 2);
static_assert(fill_drain::returned_slots(4, 8, 1, 0, 2, 4) == 7);  // 4 wait for their parameter part, 2 are on the way
static_assert(!fill_drain::admits(0, 1) && !fill_drain::admits(1, 0) && fill_drain::admits(1, 1));

TEST_CASE("the table matches the drawing") {
  CHECK(row(3, 2, 0) == "F1 F0 . . . . B0 B1");
  CHECK(row(3, 2, 1) == ". F1 F0 . . B0 B1 .");
  CHECK(row(3, 2, 2) == ". . F1 F0 B0 B1 . .");
  CHECK(row(1, 3, 0) == "F2 F1 F0 B0 B1 B2");
}

TEST_CASE("the duration of a step is that of the paper's schedule") {
  CHECK(fill_drain::makespan(4, 8, 1, 2) == 33);
  CHECK(fill_drain::makespan(8, 32, 1, 2) == 117);
  CHECK(fill_drain::makespan(4, 8, 1, 3) == 44);
}
