#include <gpipe/plan/schedule/zb_v.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

static_assert(zb_v::worker_of(8, 1) == 1 && zb_v::worker_of(8, 6) == 1 && zb_v::worker_of(8, 7) == 0);
static_assert(zb_v::admits(2, 1) && !zb_v::admits(1, 1) && !zb_v::admits(5, 4) && !zb_v::admits(4, 0));
static_assert(zb_v::in_flight(8, 16, 0) == 8 && zb_v::in_flight(8, 16, 7) == 1);

TEST_CASE("the table matches the drawing") {
  CHECK(describe(timetable(zb_v{}, 4, 3)) ==
        "tick      0    1    2    3    4    5    6    7    8    9    10   11   12   13   14   15   16   17   18\n"
        "worker 0  0F0  0F1  0F2  3F0  3I0  3W0  3F1  3I1  3W1  0I0  0W0  3F2  3I2  3W2  0I1  0W1  0I2  0W2  .\n"
        "worker 1  .    1F0  2F0  1F1  2F1  2I0  2W0  1F2  1I0  1W0  2F2  2I1  2W1  1I1  2I2  1I2  1W1  2W2  1W2\n");
}

TEST_CASE("with enough micro-batches, a worker is never idle after its first cell") {
  for (int K = 1; K <= 8; ++K)
    for (int M = 2 * K - 1; M <= 3 * K + 2; ++M)
      for (int w = 0; w < K; ++w) {
        bool busy = true;
        for (int t = w; t < w + 6 * M; ++t) busy = busy && zb_v::at(2 * K, M, w, t).kind != action_kind::idle;
        CHECK(busy);
      }
}

TEST_CASE("fewer than 2 K - 1 micro-batches have the ticks of 2 K - 1") {
  for (int K = 1; K <= 6; ++K) {
    for (int M = 1; M < 2 * K; ++M) CHECK(zb_v::ticks(2 * K, M) == 6 * (2 * K - 1) + K - 1);
    CHECK(zb_v::ticks(2 * K, 2 * K) == 6 * 2 * K + K - 1);
  }
}

TEST_CASE("workers hold at most 2 K chunk inputs") {
  for (int K = 1; K <= 8; ++K)
    for (int M = 1; M <= 4 * K; ++M)
      for (int w = 0; w < K; ++w) {
        int held = 0, max = 0;
        for (int t = 0; t < zb_v::ticks(2 * K, M); ++t) {
          const cell c = zb_v::at(2 * K, M, w, t);
          held += (c.kind == action_kind::forward) - (c.kind == action_kind::backward_parameters);
          max = held > max ? held : max;
        }
        CHECK(held == 0);
        CHECK(max == (M >= 2 * K - 1 ? 2 * K : max));
        CHECK(max <= 2 * K);
      }
}
