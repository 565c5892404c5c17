// optimize: yes

#include <gpipe/tools/search/searched_schedule.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "support/searched_pipelines.hpp"

using namespace gpipe;

namespace {

searched_pipeline v_of(int workers, int micro_batches, const std::int64_t* limits) {
  static const std::vector<searched_stage> stages(64, {1, 1, 1, 5, 3});
  return {workers, micro_batches, placement::v, stages.data(), nullptr, limits};
}
double idle_of(const searched_schedule& found, int micro_batches) {
  return 1 - 6.0 * micro_batches / static_cast<double>(found.makespan());
}

}  // namespace

TEST_CASE("a searched table is the best of a small pipeline, or near") {
  std::mt19937 random(4);
  int best = 0, all = 0;
  for (int i = 0; i < 60; ++i) {
    const bool v = i % 10 == 9;
    const searches::random_pipeline it(random, v ? 1 : 2 + i % 2,
                                       v            ? 3
                                       : i % 2 == 0 ? 3
                                                    : 2,
                                       v ? placement::v : placement::one_each);
    const searched_schedule found(it.is, 0.05);
    const std::int64_t optimum = searches::optimum(it.is);
    CAPTURE(i);
    CHECK(found.makespan() >= optimum);
    CHECK(found.lower_bound() <= optimum);
    best += found.makespan() == optimum;
    ++all;
  }
  MESSAGE("the best in ", best, " of ", all);
  CHECK(best == all);
}

TEST_CASE("a searched table is as short as the optimum that another solver proved, and says so") {
  int all = 0;
  for (const auto& it : searches::solved_pipelines()) {
    const searched_schedule found(it->is);
    CAPTURE(all);
    CHECK(found.makespan() == it->optimum);
    CHECK(found.gap() == 0);
    ++all;
  }
  REQUIRE(all == 300);
}

TEST_CASE("a searched table is never longer than a schedule of the library that fits, nor than a rule's") {
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const int workers = 1 + static_cast<int>(random() % 6), M = 1 + static_cast<int>(random() % 12);
    const searches::random_pipeline it(random, workers, M, i % 2 == 0 ? placement::one_each : placement::v);
    const searched_schedule found(it.is, 0.001);
    CAPTURE(i);
    CHECK(found.makespan() <= ruled_schedule(it.is, gradients_first{}).makespan());
    CHECK(found.gap() >= 0);
    detail::worker_orders orders(it.is);
    detail::order_times times(it.is);
    for (const schedule_kind kind : schedule_kinds)
      if (detail::read_orders(it.is, kind, orders)) CHECK(found.makespan() <= times.run(orders));
  }
}

TEST_CASE("half the memory of 1F1B is enough for a step that idles less than V-Half") {
  const std::vector<std::int64_t> all(8, 80), five_eighths(8, 50), half(8, 40);
  const searched_schedule most(v_of(8, 32, all.data())), less(v_of(8, 32, five_eighths.data()), 0.3),
      least(v_of(8, 32, half.data()), 0.1);
  CHECK(most.gap() == 0);  // ZB-V, proven
  CHECK(idle_of(most, 32) < 0.0352);
  CHECK(idle_of(less, 32) <= 0.10);
  CHECK(idle_of(least, 32) <= 0.13);
  CHECK(schedule_text(less.table(), 16, 32) ==
        schedule_text(searched_schedule(v_of(8, 32, five_eighths.data()), 0.3).table(), 16, 32));
}

TEST_CASE("what no table has is an error with the remedy") {
  std::vector<searched_stage> stages(2, {1, 1, 1, 10, 4});
  const std::vector<std::int64_t> limits{10, 9};
  const searched_pipeline of{2, 4, placement::one_each, stages.data(), nullptr, limits.data()};
  CHECK_THROWS_WITH_AS(
      searched_schedule{of},
      doctest::Contains("worker 1 has 9 bytes, and one micro-batch takes 10; choose at least 10 bytes"), error);
  CHECK_THROWS_WITH_AS(searched_schedule({.workers = 0}), doctest::Contains("0 workers"), error);
  stages[1].held = 11;
  CHECK_THROWS_WITH_AS(searched_schedule({.workers = 2, .stages = stages.data()}),
                       doctest::Contains("stage 1 keeps 10 bytes of a micro-batch and then holds 11"), error);
  stages[1] = {.forward = -1};
  CHECK_THROWS_WITH_AS(searched_schedule({.workers = 2, .stages = stages.data()}),
                       doctest::Contains("stage 1 has a negative time"), error);
  stages[1] = {.forward = INT64_MAX};
  CHECK_THROWS_WITH_AS(searched_schedule({.workers = 2, .stages = stages.data()}), doctest::Contains("overflows"),
                       error);
}
