#include <gpipe/plan/partition/dynamic_program.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;
using detail::limits;
using detail::smallest;
using detail::unlimited;

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
