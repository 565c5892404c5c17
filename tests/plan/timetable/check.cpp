#include <gpipe/plan/timetable/check.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/chain_links.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// 1F1B in which worker `worker` runs `now` in tick `tick`.
struct changed : one_f_one_b {
  int worker = -1, tick = -1;
  cell now{};
  int memory_slots = 0;  // more or less

  constexpr int in_flight(int S, int M, int s) const { return one_f_one_b::in_flight(S, M, s) + memory_slots; }
  constexpr cell at(int S, int M, int w, int t) const {
    return w == worker && t == tick ? now : one_f_one_b::at(S, M, w, t);
  }
};
static_assert(scheduler<changed>);

void finds(const changed& schedule, fault what, int worker, int tick, const char* at) {
  const check_result found = check_timetable(schedule, 3, 4, chain<3>.links, 2);
  CAPTURE(describe(found));
  CHECK(found.error == what);
  CHECK(found.worker == worker);
  CHECK(found.position == tick);
  CHECK(std::string(label_of(found.action, true).text()) == at);
}

}  // namespace

//     tick     0   1   2   3   4   5   6   7   8   9   10  11
//     stage 0  F0  .   F1  .   F2  B0  F3  B1  .   B2  .   B3
//     stage 1  .   F0  .   F1  B0  F2  B1  F3  B2  .   B3  .
//     stage 2  .   .   F0  B0  F1  B1  F2  B2  F3  B3  .   .
TEST_CASE("the first bad cell is named") {
  finds({{}, 0, 2, {action_kind::forward, 0, 0}}, fault::repeated, 0, 2, "0F0");
  finds({{}, 0, 11, {}}, fault::missing, 0, 12, "0B3");
  finds({{}, 0, 6, {}}, fault::premature, 1, 7, "1F3");                             // what it needs was dropped
  finds({{}, 1, 0, {action_kind::forward, 1, 0}}, fault::premature, 1, 0, "1F0");   // before stage 0 has run it
  finds({{}, 1, 3, {action_kind::backward, 1, 0}}, fault::premature, 1, 3, "1B0");  // in the tick in which stage 2 does
  finds({{}, 2, 2, {action_kind::backward, 2, 0}}, fault::premature, 2, 2, "2B0");  // before its own forward
  finds({{}, 2, 5, {action_kind::backward, 2, 2}}, fault::premature, 2, 5, "2B2");
  finds({{}, 0, 0, {action_kind::forward, 1, 0}}, fault::unknown, 0, 0, "1F0");
  finds({{}, 0, 0, {action_kind::forward, 0, 4}}, fault::unknown, 0, 0, "0F4");
  finds({{}, 0, 0, {action_kind::forward, 3, 0}}, fault::unknown, 0, 0, "3F0");
  finds({{}, 2, 3, {action_kind::recompute, 2, 0}}, fault::unknown, 2, 3, "2R0");
  finds({{}, -1, -1, {}, -1}, fault::stash, 2, 2, "2F0");
  CHECK(check_timetable(changed{}, 3, 4, chain<3>.links, 2).ok());
}

TEST_CASE("parameter gradients retire in ascending order") {
  //     stage 0  F0  F1  B1  B0
  struct swapped : fill_drain {
    static constexpr cell at(int S, int M, int w, int t) {
      cell c = fill_drain::at(S, M, w, t);
      if (c.kind == action_kind::backward) c.micro_batch = M - 1 - c.micro_batch;
      return c;
    }
  };
  const check_result found = check_timetable(swapped{}, 1, 2, nullptr, 0);
  CHECK(found.error == fault::retirement);
  CHECK(found.position == 2);
}

TEST_CASE("workers can be checked in parts, with the same result") {
  const changed wrong{{}, 5, 9, {}};
  CHECK(check_timetable(wrong, 8, 6, chain<8>.links, 7, 0, 5).ok());
  CHECK_FALSE(check_timetable(wrong, 8, 6, chain<8>.links, 7, 5, 6).ok());
  CHECK_FALSE(check_timetable(wrong, 8, 6, chain<8>.links, 7, 6, 8).ok());  // misses what it needs of stage 5
}

TEST_CASE("a link without gradient, or between stages of one worker, is no exception") {
  const stage_link one_way[] = {{0, 1, false}, {1, 2}};
  CHECK(check_timetable(changed{{}, 1, 4, {action_kind::backward, 1, 0}}, 3, 4, one_way, 2).ok());
  const stage_link skip[] = {{0, 1}, {0, 3}, {1, 2}, {2, 3}};
  CHECK(check_timetable(zb_v{}, 4, 5, skip, 4).ok());  // 0 and 3 are one worker's
}

TEST_CASE("invalid numbers and links are rejected and named") {
  const stage_link backwards[] = {{1, 0}};
  CHECK_THROWS_WITH_AS(check_timetable(interleaved{2}, 4, 5, chain<4>.links, 3),
                       doctest::Contains("interleaved does not admit 4 stages and 5 micro-batches"), error);
  CHECK_THROWS_WITH_AS(check_timetable(interleaved{2}, 4, 5, chain<4>.links, 3),
                       doctest::Contains("micro-batches, or another"), error);
  CHECK_THROWS_WITH_AS(check_timetable(schedule_kind::zb_v, 3, 3, chain<3>.links, 2),
                       doctest::Contains("ZB-V does not admit 3 stages"), error);
  CHECK_THROWS_WITH_AS(check_timetable(schedule_kind::zb_v, 3, 3, chain<3>.links, 2),
                       doctest::Contains("choose 2 or 4 stages, or another"), error);
  CHECK_THROWS_WITH_AS(check_timetable(interleaved{0}, 4, 3, chain<4>.links, 3),
                       doctest::Contains("choose another schedule"), error);
  CHECK_THROWS_AS(check_timetable(fill_drain{}, 2, 2, backwards, 1), error);
}

TEST_CASE("a stage of a worker that does not exist is unknown") {
  struct fewer_workers : fill_drain {
    static constexpr int workers(int) { return 2; }
  };
  const check_result found = check_timetable(fewer_workers{}, 3, 4, chain<3>.links, 2);
  CHECK(found.error == fault::unknown);
  CHECK(found.worker == 2);
  CHECK(found.action.stage == 2);
}

TEST_CASE("a worker without a stage is missing") {
  struct spare_worker : fill_drain {
    static constexpr int workers(int S) { return S + 1; }
    static constexpr int worker_of(int, int stage) { return stage + 1; }
    static constexpr cell at(int S, int M, int w, int t) { return w > 0 ? fill_drain::at(S, M, w - 1, t) : cell{}; }
  };
  const check_result found = check_timetable(spare_worker{}, 3, 4, chain<3>.links, 2);
  CHECK(found.error == fault::missing);
  CHECK(found.worker == 0);
  CHECK(check_timetable(interleaved{4}, 4, 4, chain<4>.links, 3).ok());  // all stages are one worker's
}

static_assert(check_result{}.ok());
static_assert(!check_result{.error = fault::deadlock}.ok());

TEST_CASE("every fault has its own name") {
  for (int a = 0; a <= static_cast<int>(fault::stash); ++a)
    for (int b = 0; b < a; ++b)
      CHECK(std::string(name_of(static_cast<fault>(a))) != std::string(name_of(static_cast<fault>(b))));
  CHECK(std::string(name_of(fault::stash)) == "stash");
}
