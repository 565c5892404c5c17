#include <gpipe/plan/partition/equal_devices.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

#include <gpipe/plan/partition/objective.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct found {
  int first[3] = {};
  std::int64_t step = 0;
};

constexpr found cut_of(bool first_again) {
  // Forward 1, 9, 3 and backward 8, 2, 4; every forward runs again.
  constexpr pass_cost costs[] = {{1, 9, 1}, {9, 11, 9}, {3, 7, 3}};
  const partition_problem p{.layers = 3, .stages = 2, .costs = costs, .recomputes_first = first_again};
  found it;
  detail::partition_equal(p, it.first, fits_always{});
  it.step = objective_of(p, it.first);
  return it;
}

// With one micro-batch every cut is equal, unless its forward runs again: behind the cut at 2 that takes 3 and not 12.
static_assert(cut_of(false).first[1] == 1 && cut_of(false).step == 27);
static_assert(cut_of(true).first[1] == 2 && cut_of(true).step == 30);

}  // namespace

TEST_CASE("a range is within a bound of its turn if every longer one is") {
  const detail::load sum[] = {{}, {1, 9, 10, 1}, {10, 20, 30, 10}, {13, 27, 40, 13}};
  const detail::turns_within<fits_always> turns{sum, fits_always{}, 30};
  CHECK(turns(0, 2));
  CHECK_FALSE(turns(1, 3));
  CHECK(turns(2, 3));
  CHECK(turns.turn(0, 3) == 40);
}

namespace {

constexpr load sums[] = {{0, 0, 0}, {3, 1, 4},  {3, 1, 4},
                         {4, 5, 9}, {9, 6, 15}, {11, 8, 19}};  // prefix sums of five layers
constexpr gpipe::detail::fits_always everything;

constexpr prefix_probe<gpipe::detail::fits_always> over(int stages) { return {sums, 5, stages, everything}; }

constexpr std::int64_t min_forward(int stages) {
  return over(stages).min_limit({unlimited, unlimited, unlimited}, &load::forward, 0, 11);
}
static_assert(min_forward(1) == 11 && min_forward(2) == 7 && min_forward(3) == 5 && min_forward(5) == 5);

}  // namespace

TEST_CASE("a stage reaches as far as the limits allow, from any first guess") {
  for (const int width : {0, 1, 2, 5, 9}) {
    CHECK(over(2).reach(0, width, {4, 5, 9}) == 3);
    CHECK(over(2).reach(0, width, {4, 4, 9}) == 2);
    CHECK(over(2).reach(0, width, {2, 9, 9}) == 0);
    CHECK(over(2).reach(1, width, {0, 0, 0}) == 2);  // a layer without cost
    CHECK(over(2).reach(0, width, {99, 99, 99}) == 5);
  }
}

TEST_CASE("a stage may have as many layers as fit in memory") {
  constexpr int layers = 1 << 20;
  std::vector<load> of(layers + 1);
  for (int l = 0; l <= layers; ++l) of[static_cast<std::size_t>(l)] = {l, l, 2 * std::int64_t{l}};
  const prefix_probe<gpipe::detail::fits_always> probe{of.data(), layers, 2, everything};
  for (const int width : {1, 3, layers / 3}) {
    CHECK(probe.reach(0, width, {layers - 5, unlimited, unlimited}) == layers - 5);
    CHECK(probe.reach(7, width, {layers / 2, unlimited, unlimited}) == layers / 2 + 7);
  }
}

TEST_CASE("a probe returns the largest stage, or the next limit to try") {
  auto two = over(2);
  CHECK(two.run({7, 99, 99}, &load::forward));
  CHECK(two.reached.forward == 7);
  CHECK(two.reached.both == 10);
  CHECK_FALSE(two.run({6, 99, 99}, &load::forward));
  CHECK(two.next == 7);
  CHECK_FALSE(two.run({1, 99, 99}, &load::forward));
  CHECK(two.next <= 7);
}

TEST_CASE("without a valid limit in the range, the result is one more than the range") {
  CHECK(over(2).min_limit({unlimited, unlimited, unlimited}, &load::forward, 0, 6) == 7);
  CHECK(over(2).min_limit({unlimited, 4, unlimited}, &load::forward, 0, 11) == 12);
}

TEST_CASE("a limit can raise the smallest value of another one") {
  CHECK(over(3).min_limit({unlimited, 5, unlimited}, &load::forward, 0, 11) == 5);
  CHECK(over(3).min_limit({unlimited, 4, unlimited}, &load::forward, 0, 11) == 7);
}

TEST_CASE("cuts are spread evenly within the limits") {
  int first[4];
  spread(over(2), {11, 8, 19}, first);  // 9 | 10
  CHECK(first[1] == 3);
  spread(over(3), {11, 8, 19}, first);  // 4 | 5 | 10 is as even as 4 | 11 | 4
  CHECK(first[1] == 2);
  spread(over(3), {5, 5, 19}, first);  // the limits allow one cut
  CHECK(first[1] == 3);
  CHECK(first[2] == 4);
}
