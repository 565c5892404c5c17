#include <gpipe/plan/partition/problem.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;

namespace {

constexpr slot_cost costs[4] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};

void check(const transfer& t) {
  detail::require_problem({.slots = 4, .stages = 2, .costs = costs, .transfers = &t, .transfer_count = 1,
                           .goal = objective::bottleneck});
}

}  // namespace

TEST_CASE("a transfer goes forward, from a slot to later ones") {
  const int both[] = {1, 3}, back[] = {3, 2}, same[] = {2, 2}, own[] = {1}, beyond[] = {4};
  CHECK_NOTHROW(check({.writer = 0, .readers = both, .reader_count = 2, .time = 5}));
  CHECK_NOTHROW(check({.writer = 0, .readers = same, .reader_count = 2, .time = 5}));  // one slot, two inputs
  CHECK_NOTHROW(check({.writer = 2, .time = 5}));
  CHECK_THROWS_WITH_AS(check({.writer = 3, .time = 5}), doctest::Contains("from slot 3 to slot 4"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .readers = back, .reader_count = 2}), doctest::Contains("to slot 2"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 1, .readers = own}), doctest::Contains("slot 1 to slot 1"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 1, .readers = beyond}), doctest::Contains("to slot 4 of 4"), error);
  CHECK_THROWS_WITH_AS(check({.writer = -1, .readers = own}), doctest::Contains("from slot -1"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .time = -5}), doctest::Contains("in time -5"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .reader_count = 0}), doctest::Contains("transfer 0"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .time = detail::unlimited / 2 + 1}), doctest::Contains("exceed 64 bits"),
                       error);
}

TEST_CASE("a stage's device is of a kind that has costs") {
  const int kinds[] = {0, 2};
  CHECK_THROWS_WITH_AS(detail::require_problem({.slots = 2, .stages = 2, .costs = costs, .kinds = 2, .kind_of = kinds}),
                       doctest::Contains("stage 1: the stage is on a device of kind 2, but there are 2"), error);
}

TEST_CASE("fill-drain's makespan takes no transfers") {
  const transfer t{.writer = 0, .time = 1};
  CHECK_THROWS_WITH_AS(
      detail::require_problem({.slots = 2, .stages = 2, .costs = costs, .transfers = &t, .transfer_count = 1}),
      doctest::Contains("free transfers, but there are 1"), error);
}
