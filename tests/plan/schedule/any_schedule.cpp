#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

using namespace gpipe;

constexpr int ticks_of(schedule_choice choice) {
  return with_schedule(choice, [](auto schedule) { return schedule.ticks(4, 2); });
}
static_assert(ticks_of(schedule_kind::fill_drain) == 10);
static_assert(ticks_of(schedule_kind::forward_only) == 5);
static_assert(ticks_of(schedule_kind::interleaved) == 10);
static_assert(ticks_of({schedule_kind::interleaved, 4}) == 16);
static_assert(parse_schedule("zb-V") == schedule_kind::zb_v);

TEST_CASE("kinds convert to the schedule's name and back") {
  const char* names[] = {"fill-drain",     "1F1B", "interleaved", "looped-BFS",  "ZB-H1",
                         "interleaved-ZB", "ZB-V", "DualPipeV",   "forward-only"};
  for (const schedule_kind kind : schedule_kinds) {
    const std::string text = names[static_cast<int>(kind)];
    CHECK(name_of(kind) == text);
    CHECK(with_schedule(kind, [](auto schedule) { return std::string(schedule.name()); }) == text);
    CHECK(parse_schedule(text) == kind);
  }
  CHECK(parse_schedule("1f1b") == schedule_kind::one_f_one_b);
  CHECK(parse_schedule("zb-h1") == schedule_kind::zb_h1);
  CHECK(parse_schedule("FILL-DRAIN") == schedule_kind::fill_drain);
}

TEST_CASE("the list has every schedule, and each says whether backward comes in two parts") {
  CHECK(schedule_kinds.front() == schedule_kind::fill_drain);
  CHECK(schedule_kinds.back() == schedule_kind::forward_only);
  for (const schedule_kind kind : schedule_kinds) {
    const bool parts = kind == schedule_kind::zb_h1 || kind == schedule_kind::interleaved_zb ||
                       kind == schedule_kind::zb_v || kind == schedule_kind::dual_pipe_v;
    CHECK(schedule_choice(kind).splits == parts);
  }
}

TEST_CASE("the error of an unknown schedule contains its name") {
  for (const char* text : {"", "1f1", "1f1bb", "gpipe", "fill drain"})
    CHECK_THROWS_WITH_AS(parse_schedule(text),
                         doctest::Contains(("'" + std::string(text) + "'; choose fill-drain").c_str()), error);
}

TEST_CASE("forwards() runs the forwards of a schedule in the same ticks") {
  const schedule_choice forwards = schedule_choice(schedule_kind::interleaved).forwards();
  CHECK(describe(timetable(forwards, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9\n"
        "worker 0  0F0  0F1  2F0  .    2F1  .    .    .    .    .\n"
        "worker 1  .    1F0  1F1  3F0  .    3F1  .    .    .    .\n");
  CHECK_THROWS_AS(timetable(forwards, 4, 5), error);
}

TEST_CASE("a kind knows the stages of its workers") {
  for (const int chunks : {1, 2, 5}) {
    for (const schedule_kind kind :
         {schedule_kind::interleaved, schedule_kind::looped_bfs, schedule_kind::interleaved_zb})
      CHECK(stages_per_worker(kind, chunks) == chunks);
    for (const schedule_kind kind : {schedule_kind::zb_v, schedule_kind::dual_pipe_v})
      CHECK(stages_per_worker(kind, chunks) == 2);
    for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1,
                                     schedule_kind::forward_only, schedule_kind::custom})
      CHECK(stages_per_worker(kind, chunks) == 1);
  }
  CHECK(stages_per_worker(schedule_kind::interleaved, 0) == 1);
}
