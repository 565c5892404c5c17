#include <gpipe/plan/partition/equal_devices.hpp>

#include <doctest/doctest.h>

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
