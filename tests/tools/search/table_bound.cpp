// optimize: yes

#include <gpipe/tools/search/table_bound.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "support/searched_pipelines.hpp"

using namespace gpipe;

// With equal stages ZB-V's 6 M + K - 1 ticks are the shortest, and ZB-H1 fills a worker but for its first cells.
static_assert(lower_bound_of_tables({.workers = 4, .micro_batches = 8, .placed = placement::v}) == 6 * 8 + 3);
static_assert(lower_bound_of_tables({.workers = 1, .micro_batches = 3}) == 9);

TEST_CASE("a worker with memory for few forwards waits for its first gradient") {
  const std::vector<searched_stage> stages(16, {1, 1, 1, 10, 6});
  const auto bound_with = [&](std::int64_t bytes) {
    const std::vector<std::int64_t> limits(8, bytes);
    return lower_bound_of_tables({8, 32, placement::v, stages.data(), nullptr, limits.data()});
  };
  // The last worker begins at 7, and its first gradient arrives at 23: it has memory for 12 forwards until then.
  CHECK(bound_with(120) == 6 * 32 + 7 + 4);
  CHECK(bound_with(160) == 6 * 32 + 7);
}

TEST_CASE("no table of a small pipeline is shorter than the bound") {
  std::mt19937 random(1);
  int met = 0, all = 0;
  const auto check = [&](int workers, int micro_batches, placement placed, int count) {
    for (int i = 0; i < count; ++i) {
      const searches::random_pipeline it(random, workers, micro_batches, placed);
      const std::int64_t best = searches::optimum(it.is), bound = lower_bound_of_tables(it.is);
      CAPTURE(i);
      REQUIRE(best > 0);
      CHECK(bound <= best);
      CHECK(static_cast<double>(bound) > 0.9 * static_cast<double>(best));
      met += bound == best;
      ++all;
    }
  };
  check(1, 4, placement::one_each, 100);
  check(2, 2, placement::one_each, 300);
  check(2, 3, placement::one_each, 200);
  check(3, 2, placement::one_each, 200);
  check(1, 2, placement::v, 100);
  check(1, 3, placement::v, 20);
  check(2, 2, placement::v, 8);
  MESSAGE("the bound is the optimum of ", met, " of ", all, " pipelines");
  CHECK(met > all / 2);
}

TEST_CASE("the bound is never above an optimum that another solver proved") {
  int met = 0, all = 0;
  double gaps = 0;
  for (const auto& it : searches::solved_pipelines()) {
    const std::int64_t bound = lower_bound_of_tables(it->is);
    CAPTURE(all);
    CHECK(bound <= it->optimum);
    gaps += 1 - static_cast<double>(bound) / static_cast<double>(it->optimum);
    met += bound == it->optimum;
    ++all;
  }
  MESSAGE("the bound is the optimum of ", met, " of ", all, ", and ", 100 * gaps / all, " % below it on average");
  REQUIRE(all == 300);
  CHECK(met >= 150);
  CHECK(gaps / all < 0.05);
}
