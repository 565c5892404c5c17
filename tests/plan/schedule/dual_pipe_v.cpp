#include <gpipe/plan/schedule/dual_pipe_v.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <algorithm>

using namespace gpipe;

static_assert(dual_pipe_v::worker_of(8, 1) == 1 && dual_pipe_v::worker_of(8, 6) == 1);
static_assert(dual_pipe_v::admits(2, 1) && !dual_pipe_v::admits(1, 1) && !dual_pipe_v::admits(5, 4));
static_assert(dual_pipe_v::in_flight(8, 16, 0) == 8 && dual_pipe_v::in_flight(8, 16, 7) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(
      describe(timetable(dual_pipe_v{}, 4, 4)) ==
      "tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17   18   19   "
      "20 "
      "  21   22   23   24\n"
      "worker 0  0F0  0F1  0F2  3F0  3I0  3W0  3F1  0F3  3B1  .    3F2  0B0  .    3B2  .    3F3  .    0B1  .    3B3  . "
      "   0I2  0W2  0I3  0W3\n"
      "worker 1  .    1F0  2F0  1F1  2F1  1F2  2B0  .    2F2  1B0  .    1F3  2B1  .    2F3  1B1  .    2B2  .    1B2  . "
      "   2I3  1I3  2W3  1W3\n");
}

TEST_CASE("fewer than 2 K micro-batches have the ticks of 2 K") {
  for (int K = 1; K <= 6; ++K)
    for (int M = 1; M < 2 * K; ++M) CHECK(dual_pipe_v::ticks(2 * K, M) == dual_pipe_v::ticks(2 * K, 2 * K));
}

TEST_CASE("a step takes 6 M + K - 1 equal parts") {
  for (int K = 1; K <= 8; ++K)
    for (int M = 2 * K; M <= 3 * K + 2; ++M) {
      CHECK(dual_pipe_v::ticks(2 * K, M) == 6 * M + K - 1);
      CHECK(timetable(dual_pipe_v{}, 2 * K, M).simulate(1, 1, 1) == 6 * M + K - 1);
    }
}

TEST_CASE("each worker has whole backwards and backwards in two parts, and holds at most 2 K + 1 chunks") {
  for (int K = 1; K <= 6; ++K)
    for (int M = 1; M <= 4 * K; ++M)
      for (int w = 0; w < K; ++w) {
        int held = 0, peak = 0, whole = 0, split = 0;
        for (int t = 0; t < dual_pipe_v::ticks(2 * K, M); ++t) {
          const cell c = dual_pipe_v::at(2 * K, M, w, t);
          whole += c.kind == action_kind::backward;
          split += c.kind == action_kind::backward_parameters;
          held += c.kind == action_kind::forward;
          held -= c.kind == action_kind::backward || c.kind == action_kind::backward_parameters;
          peak = std::max(peak, held);
        }
        CHECK(held == 0);
        CHECK(whole + split == 2 * M);
        if (M >= 2 * K) CHECK(split == K + (K - 1 - w));
        if (M >= 2 * K) CHECK(peak == 2 * K + 1);
        CHECK(peak <= 2 * K + 1);
      }
}
