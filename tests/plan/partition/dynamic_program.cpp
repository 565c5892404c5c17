#include <gpipe/plan/partition/dynamic_program.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// Four layers; the second device is slow with the second layer and fast with the others.
constexpr pass_cost costs[] = {{1, 2}, {1, 2}, {4, 1}, {1, 2}, {1, 1}, {9, 9}, {1, 1}, {1, 1}};
constexpr int kinds[] = {0, 1};
constexpr partition_problem problem{.layers = 4, .stages = 2, .costs = costs, .kinds = 2, .kind_of = kinds};

// The best value under the limits with its cut: 10 times the value, plus the begin of the second stage.
constexpr std::int64_t best(const limits& within, smallest what) {
  const detail::range_sums all(problem, fits_always{});
  detail::dynamic_program dynamic_program(all);
  const std::int64_t value = dynamic_program.run(within, what);
  if (value == unlimited) return unlimited;
  int first[3] = {};
  dynamic_program.choose(first);
  return 10 * value + first[1];
}

static_assert(best({}, smallest::both) == 62);  // 6 | 4
static_assert(best({}, smallest::total) == 62);
static_assert(best({}, smallest::sum) == 102);      // 6 + 4
static_assert(best({}, smallest::forward) == 22);   // 2 | 2
static_assert(best({}, smallest::backward) == 42);  // 4 | 2
static_assert(best({.forward = 1}, smallest::sum) == unlimited);
static_assert(best({.backward = 5}, smallest::backward) == 42);
static_assert(best({.both = 5}, smallest::sum) == unlimited);
static_assert(best({.total = 6}, smallest::sum) == 102);

}  // namespace

TEST_CASE("a transfer moves the cut") {
  const transfer wide{.writer = 1, .time = 50};
  partition_problem moved = problem;
  moved.transfers = &wide;
  moved.transfer_count = 1;
  moved.goal = objective::bottleneck;
  const detail::range_sums all(moved, fits_always{});
  detail::dynamic_program dynamic_program(all);
  int first[3];
  CHECK(dynamic_program.run({}, smallest::total) == 11);
  dynamic_program.choose(first);
  CHECK(first[1] == 3);
  CHECK(dynamic_program.run({.total = 10}, smallest::total) == unlimited);
}

TEST_CASE("one object can run again with other limits") {
  const detail::range_sums all(problem, fits_always{});
  detail::dynamic_program dynamic_program(all);
  for (int i = 0; i < 2; ++i) {
    CHECK(dynamic_program.run({}, smallest::sum) == 10);
    CHECK(dynamic_program.run({.both = 1}, smallest::sum) == unlimited);
    CHECK(dynamic_program.run({}, smallest::forward) == 2);
  }
}

namespace {

// Two devices, the second twice as fast. The sum is smallest with all work on it; the M - 1 periods need an even share.
constexpr pass_cost two_speeds[] = {{4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4}, {4, 4},
                                    {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}};
struct search_result {
  std::int64_t makespan = 0, both = 0;
  bool balanced = false;  ///< whether a smaller largest stage has the same makespan
};

constexpr search_result search(int micro_batches) {
  const partition_problem p{
      .layers = 6, .stages = 2, .micro_batches = micro_batches, .costs = two_speeds, .kinds = 2, .kind_of = kinds};
  const detail::range_sums all(p, fits_always{});
  detail::dynamic_program programs(all);
  programs.run({}, detail::smallest::sum);  // the first cut
  detail::makespan_search search(all, programs);
  search.search(unlimited, search.makespan() - 1, -1);
  const search_result best{search.makespan(), search.maxima().both};
  return {best.makespan, best.both, search.search(best.both - 1, best.makespan, best.makespan)};
}

static_assert(search(1).makespan == 8 + 20 && search(1).both == 20);
static_assert(search(2).makespan == 8 + 20 + 20 && search(2).balanced);  // 2 | 4 has the same makespan: 16 + 16 + 16
static_assert(search(5).makespan == 16 + 16 + 4 * 16 && search(5).both == 16);

}  // namespace

TEST_CASE("the search finds nothing if there is no better cut") {
  const partition_problem p{
      .layers = 6, .stages = 2, .micro_batches = 5, .costs = two_speeds, .kinds = 2, .kind_of = kinds};
  const detail::range_sums all(p, fits_always{});
  detail::dynamic_program programs(all);
  programs.run({}, detail::smallest::both);
  detail::makespan_search search(all, programs);
  CHECK_FALSE(search.search(unlimited, 95, -1));
  CHECK(search.search(unlimited, 96, -1));
  CHECK_FALSE(search.search(15, 1000, -1));
}
