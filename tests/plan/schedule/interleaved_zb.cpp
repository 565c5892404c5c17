#include <gpipe/plan/schedule/interleaved_zb.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <algorithm>

#include <gpipe/plan/schedule/zb_h1.hpp>

using namespace gpipe;

static_assert(interleaved_zb{2}.admits(8, 8) && interleaved_zb{2}.admits(8, 3) && interleaved_zb{2}.admits(8, 10));
static_assert(!interleaved_zb{2}.admits(8, 9) && !interleaved_zb{2}.admits(7, 8) && !interleaved_zb{0}.admits(8, 8));
static_assert(interleaved_zb{2}.workers(8) == 4 && interleaved_zb{2}.worker_of(8, 5) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(interleaved_zb{2}, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9    10   11   12\n"
        "worker 0  0F0  0F1  2F0  .    2F1  2I0  2W0  2I1  2W1  0I0  0W0  0I1  0W1\n"
        "worker 1  .    1F0  1F1  3F0  3I0  3F1  3I1  3W0  1I0  3W1  1I1  1W0  1W1\n");
}

TEST_CASE("with one chunk it is ZB-H1") {
  for (int S = 1; S <= 6; ++S)
    for (int M = S; M <= 4 * S; ++M)
      if (interleaved_zb{1}.admits(S, M))
        CHECK(describe(timetable(interleaved_zb{1}, S, M)) == describe(timetable(zb_h1{}, S, M)));
}

TEST_CASE("a worker is idle for (K - 1) (F + I - W) of a chunk, and in K - 1 ticks") {
  for (int V = 1; V <= 4; ++V)
    for (int K = 1; K <= 6; ++K)
      for (int M = K; M <= 4 * K; ++M) {
        const interleaved_zb schedule{V};
        if (!schedule.admits(V * K, M)) continue;
        CHECK(schedule.ticks(V * K, M) == 3 * V * M + K - 1);
        CHECK(timetable(schedule, V * K, M).simulate(1, 1, 1) == 3 * V * M + K - 1);
        CHECK(timetable(schedule, V * K, M).simulate(3, 2, 1) == V * M * (3 + 2 + 1) + (K - 1) * (3 + 2 - 1));
      }
}

TEST_CASE("a worker holds (V - 1) G + K chunks: 2 K with two chunks, as in ZB-V") {
  for (int V = 1; V <= 4; ++V)
    for (int K = 1; K <= 6; ++K)
      for (int M = K; M <= 4 * K; ++M)
        for (int w = 0; w < K && interleaved_zb{V}.admits(V * K, M); ++w) {
          const interleaved_zb schedule{V};
          int held = 0, peak = 0;
          for (int t = 0; t < schedule.ticks(V * K, M); ++t) {
            const cell c = schedule.at(V * K, M, w, t);
            held += (c.kind == action_kind::forward) - (c.kind == action_kind::backward_parameters);
            peak = std::max(peak, held);
          }
          CHECK(held == 0);
          CHECK(peak == (V - 1) * (M / (M / K)) + K);
        }
}
