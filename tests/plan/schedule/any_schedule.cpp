#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/timetable/check.hpp>
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

TEST_CASE("three schedules have any number of stages a worker") {
  for (const schedule_kind kind : schedule_kinds)
    CHECK(detail::has_chunks(kind) == (kind == schedule_kind::interleaved || kind == schedule_kind::looped_bfs ||
                                       kind == schedule_kind::interleaved_zb));
  CHECK_FALSE(detail::has_chunks(schedule_kind::custom));
}

// change: a schedule
TEST_CASE("kinds convert to the schedule's name and back") {
  const char* names[] = {"fill-drain", "1F1B",      "interleaved", "looped-BFS", "ZB-H1", "interleaved-ZB",
                         "ZB-V",       "DualPipeV", "V-Half",      "V-Min",      "ZB-2p", "forward-only"};
  for (const schedule_kind kind : schedule_kinds) {
    const std::string text = names[static_cast<int>(kind)];
    CHECK(name_of(kind) == text);
    CHECK(with_schedule(kind, [](auto schedule) { return std::string(schedule.name()); }) == text);
    CHECK(parse_schedule(text) == kind);
  }
  CHECK(parse_schedule("1f1b") == schedule_kind::one_f_one_b);
  CHECK(parse_schedule("zb-h1") == schedule_kind::zb_h1);
  CHECK(parse_schedule("FILL-DRAIN") == schedule_kind::fill_drain);
  CHECK(parse_schedule(name_of(schedule_kind::searched)) == schedule_kind::searched);
}

TEST_CASE("a schedule that is not searched yet has the workers of ZB-H1 or of ZB-V") {
  for (const int chunks : {1, 2}) {
    const schedule_choice placed(schedule_kind::searched, chunks);
    CHECK(placed.workers(8) == 8 / chunks);
    CHECK(placed.worker_of(8, 7) == (chunks == 1 ? 7 : 0));
    CHECK(stages_per_worker(schedule_kind::searched, chunks) == chunks);
    CHECK(with_schedule(placed, [](auto schedule) { return schedule.workers(8); }) == 8 / chunks);
  }
}

TEST_CASE("the list has every schedule, and each says whether backward comes in two parts") {
  CHECK(schedule_kinds.front() == schedule_kind::fill_drain);
  CHECK(schedule_kinds.back() == schedule_kind::forward_only);
  for (const schedule_kind kind : schedule_kinds) {
    const bool parts = kind == schedule_kind::zb_h1 || kind == schedule_kind::interleaved_zb ||
                       kind == schedule_kind::zb_v || kind == schedule_kind::dual_pipe_v ||
                       kind == schedule_kind::v_half || kind == schedule_kind::v_min || kind == schedule_kind::zb_2p;
    CHECK(schedule_choice(kind).splits == parts);
  }
}

namespace {

/// The maximum number of micro-batches whose inputs each stage holds, by a count of the table's cells.
template <class Schedule>
std::vector<int> held_by_stages(const Schedule& schedule, int S, int M) {
  std::vector<int> now(static_cast<std::size_t>(S)), max = now;
  for (int t = 0; t < schedule.ticks(S, M); ++t)
    for (const bool begins : {true, false})
      for (int w = 0; w < schedule.workers(S); ++w) {
        const cell c = schedule.at(S, M, w, t);
        if (c.kind == action_kind::idle) continue;
        const auto s = static_cast<std::size_t>(c.stage);
        if (begins && c.kind == action_kind::forward) max[s] = std::max(max[s], ++now[s]);
        else if (!begins && (c.kind == action_kind::backward || c.kind == action_kind::backward_parameters ||
                             (c.kind == action_kind::forward && !schedule.trains)))
          --now[s];
      }
  CHECK(now == std::vector<int>(static_cast<std::size_t>(S)));
  return max;
}

template <class Schedule>
void is_as_it_says(const Schedule& schedule, int S, int M) {
  if (!schedule.admits(S, M)) return;
  CAPTURE(schedule.name());
  CAPTURE(S);
  CAPTURE(M);
  std::vector<stage_link> links;
  for (int s = 0; s + 1 < S; ++s) links.push_back({s, s + 1});
  REQUIRE(check_timetable(schedule, S, M, links.data(), S - 1).ok());
  const std::vector<int> held = held_by_stages(schedule, S, M);
  for (int s = 0; s < S; ++s) REQUIRE(schedule.in_flight(S, M, s) == held[static_cast<std::size_t>(s)]);
  if constexpr (requires { schedule.makespan(S, M, 1, 1); })
    REQUIRE(schedule.makespan(S, M, 3, 5) == timetable(schedule, S, M).simulate(3, schedule.trains ? 5 : 0, 0));
}

}  // namespace

TEST_CASE("every small table keeps the promises of a schedule, and a schedule's numbers are those of a count") {
  for (const schedule_kind kind : schedule_kinds)
    for (const int chunks : {1, 2, 3})
      for (int S = 1; S <= 6; ++S)
        for (int M = 1; M <= 7; ++M)
          with_schedule({kind, chunks}, [&](const auto& schedule) { is_as_it_says(schedule, S, M); });
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
    for (const schedule_kind kind :
         {schedule_kind::zb_v, schedule_kind::dual_pipe_v, schedule_kind::v_half, schedule_kind::v_min})
      CHECK(stages_per_worker(kind, chunks) == 2);
    for (const schedule_kind kind : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1,
                                     schedule_kind::zb_2p, schedule_kind::forward_only, schedule_kind::custom})
      CHECK(stages_per_worker(kind, chunks) == 1);
  }
  CHECK(stages_per_worker(schedule_kind::interleaved, 0) == 1);
}
