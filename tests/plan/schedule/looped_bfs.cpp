#include <gpipe/plan/schedule/looped_bfs.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/schedule/fill_drain.hpp>
#include <gpipe/plan/schedule/interleaved.hpp>

using namespace gpipe;

static_assert(looped_bfs{2}.admits(8, 1) && looped_bfs{2}.admits(8, 7) && looped_bfs{1}.admits(3, 5));
static_assert(!looped_bfs{2}.admits(7, 8) && !looped_bfs{0}.admits(8, 8) && !looped_bfs{2}.admits(8, 0));
static_assert(looped_bfs{2}.workers(8) == 4 && looped_bfs{2}.worker_of(8, 5) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(looped_bfs{2}, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9\n"
        "worker 0  0F1  0F0  2F1  2F0  .    .    2B0  2B1  0B0  0B1\n"
        "worker 1  .    1F1  1F0  3F1  3F0  3B0  3B1  1B0  1B1  .\n");
}

TEST_CASE("with one chunk it is fill-drain") {
  for (int S = 1; S <= 6; ++S)
    for (int M = 1; M <= 3 * S; ++M)
      CHECK(describe(timetable(looped_bfs{1}, S, M)) == describe(timetable(fill_drain{}, S, M)));
}

TEST_CASE("idle time is that of fill-drain divided by the number of chunks") {
  for (int V = 1; V <= 4; ++V)
    for (int K = 1; K <= 5; ++K)
      for (int M = 1; M <= 3 * K; ++M) {
        if (M >= K) CHECK(looped_bfs{V}.makespan(V * K, M, 2, 3) == (V * M + K - 1) * (2 + 3));
        CHECK(timetable(looped_bfs{V}, V * K, M).simulate(2, 3, 0) == looped_bfs{V}.makespan(V * K, M, 2, 3));
      }
}

TEST_CASE("a transfer on the way back to the first worker hides, and interleaved waits for it") {
  constexpr int K = 4, V = 2, M = 8, S = K * V;
  const std::vector<stage_times> times(S, {20, 20, 0});
  std::vector<stage_link> links;
  for (int s = 0; s + 1 < S; ++s) links.push_back({s, s + 1});
  std::vector<link_times> transfers(S - 1);
  transfers[K - 1] = {20, 20};
  const auto step = [&](schedule_choice schedule) {
    return simulate(schedule, {S, M, recompute_mode::never, times.data(), links.data(), S - 1, transfers.data()});
  };
  CHECK(step(schedule_kind::looped_bfs) == looped_bfs{V}.makespan(S, M, 20, 20));
  CHECK(step(schedule_kind::interleaved) > interleaved{V}.makespan(S, M, 20, 20));
}
