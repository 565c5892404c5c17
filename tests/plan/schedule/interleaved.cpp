#include <gpipe/plan/schedule/interleaved.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

static_assert(interleaved{2}.admits(8, 8) && interleaved{2}.admits(8, 4) && interleaved{1}.admits(3, 6));
static_assert(!interleaved{2}.admits(7, 8) && !interleaved{2}.admits(8, 6) && !interleaved{0}.admits(8, 8));
static_assert(!interleaved{2}.admits(0, 8) && !interleaved{2}.admits(8, 0) && !interleaved{4}.admits(2, 2));
static_assert(interleaved{2}.workers(8) == 4 && interleaved{2}.worker_of(8, 5) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(interleaved{2}, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9\n"
        "worker 0  0F0  0F1  2F0  .    2F1  2B0  .    2B1  0B0  0B1\n"
        "worker 1  .    1F0  1F1  3F0  3B0  3F1  3B1  1B0  1B1  .\n");
}

TEST_CASE("with one chunk it is 1F1B") {
  for (int S = 1; S <= 6; ++S)
    for (int M = S; M <= 3 * S; M += S)
      CHECK(describe(timetable(interleaved{1}, S, M)) == describe(timetable(one_f_one_b{}, S, M)));
}

TEST_CASE("idle time is that of 1F1B divided by the number of chunks") {
  for (int V = 1; V <= 4; ++V)
    for (int K = 1; K <= 5; ++K)
      for (int M = K; M <= 4 * K; M += K) {
        CHECK(interleaved{V}.makespan(V * K, M, 2, 3) == V * M * (2 + 3) + (K - 1) * (2 + 3));
        CHECK(timetable(interleaved{V}, V * K, M).simulate(2, 3, 0) == interleaved{V}.makespan(V * K, M, 2, 3));
      }
}
