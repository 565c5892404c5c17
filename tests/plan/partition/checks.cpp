#include <gpipe/plan/partition/checks.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr pass_cost costs[4] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};

void check(const transfer& t) {
  detail::require_problem(
      {.layers = 4, .stages = 2, .costs = costs, .transfers = &t, .transfer_count = 1, .goal = objective::bottleneck});
}

constexpr int written() {
  const int between[] = {3, 4};
  int first[4] = {};
  take_cut(between, 2, 5, 3, first);
  return first[0] + 10 * first[1] + 100 * first[2] + 1000 * first[3];
}
static_assert(written() == 5430);

}  // namespace

TEST_CASE("a transfer goes forward, from a layer to later ones") {
  const int both[] = {1, 3}, back[] = {3, 2}, same[] = {2, 2}, self[] = {1}, beyond[] = {4};
  CHECK_NOTHROW(check({.writer = 0, .readers = both, .reader_count = 2, .time = 5}));
  CHECK_NOTHROW(check({.writer = 0, .readers = same, .reader_count = 2, .time = 5}));  // one layer, two inputs
  CHECK_NOTHROW(check({.writer = 2, .time = 5}));
  CHECK_THROWS_WITH_AS(check({.writer = 3, .time = 5}), doctest::Contains("from layer 3 to layer 4"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .readers = back, .reader_count = 2}), doctest::Contains("to layer 2"),
                       error);
  CHECK_THROWS_WITH_AS(check({.writer = 1, .readers = self}), doctest::Contains("layer 1 to layer 1"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 1, .readers = beyond}), doctest::Contains("to layer 4 of 4"), error);
  CHECK_THROWS_WITH_AS(check({.writer = -1, .readers = self}), doctest::Contains("from layer -1"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .time = -5}), doctest::Contains("in time -5"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .reader_count = 0}), doctest::Contains("transfer 0"), error);
  CHECK_THROWS_WITH_AS(check({.writer = 0, .time = detail::unlimited / 2 + 1}), doctest::Contains("exceed 64 bits"),
                       error);
}

TEST_CASE("a stage's kind of device must have costs") {
  const int kinds[] = {0, 2};
  CHECK_THROWS_WITH_AS(
      detail::require_problem({.layers = 2, .stages = 2, .costs = costs, .kinds = 2, .kind_of = kinds}),
      doctest::Contains("stage 1: the stage's kind of device is 2, but there are 2"), error);
}

TEST_CASE("fill-drain's makespan does not include transfers") {
  const transfer t{.writer = 0, .time = 1};
  CHECK_THROWS_WITH_AS(
      detail::require_problem({.layers = 2, .stages = 2, .costs = costs, .transfers = &t, .transfer_count = 1}),
      doctest::Contains("transfer_count is 1, but objective::fill_drain is for free transfers"), error);
}

TEST_CASE("the error of an invalid cut names the stage") {
  int first[4];
  const int one[] = {2}, back[] = {3, 2}, twice[] = {2, 2}, outside[] = {2, 5}, all[] = {0, 2}, good[] = {1, 3};
  CHECK_THROWS_WITH_AS(take_cut(one, 1, 5, 3, first), doctest::Contains("the cut names 1 layer, but 3 stages need 2"),
                       error);
  CHECK_THROWS_WITH_AS(take_cut(back, 2, 5, 3, first),
                       doctest::Contains("stage 1: the cut gives the stage the layers [3, 2)"), error);
  CHECK_THROWS_WITH_AS(take_cut(twice, 2, 5, 3, first), doctest::Contains("[2, 2)"), error);
  CHECK_THROWS_WITH_AS(take_cut(outside, 2, 5, 3, first), doctest::Contains("stage 2"), error);
  CHECK_THROWS_WITH_AS(take_cut(all, 2, 5, 3, first), doctest::Contains("stage 0"), error);
  CHECK_NOTHROW(take_cut(good, 2, 5, 3, first));
  const auto two = [](int begin, int end) { return end - begin < 2; };
  CHECK_THROWS_WITH_AS(take_cut(good, 2, 5, 3, first, two), doctest::Contains("stage 1: the layers [1, 3) do not fit"),
                       error);
  const auto last = [](int stage, int begin, int end) { return stage < 2 || end - begin < 2; };
  CHECK_THROWS_WITH_AS(take_cut(good, 2, 5, 3, first, last), doctest::Contains("stage 2"), error);
}
