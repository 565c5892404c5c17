#include <gpipe/plan/partition/range_sums.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr pass_cost costs[] = {{1, 2}, {3, 4}, {5, 6}, {20, 10}, {1, 1}, {2, 2}};  // three layers on two kinds
constexpr int kinds[] = {1, 0};
constexpr partition_problem problem{.layers = 3, .stages = 2, .costs = costs, .kinds = 2, .kind_of = kinds};

}  // namespace

TEST_CASE("loads are those on the stage's device") {
  const detail::range_sums all(problem, fits_always{});
  CHECK(all.range(0, 0, 2).both == 32);
  CHECK(all.range(1, 0, 2).both == 10);
  CHECK(all.range(1, 1, 3).backward == 10);
  CHECK(all.min_sum() == 3 + 2 + 4);
  CHECK(all.max_sum() == 30 + 7 + 11);
  CHECK(all.furthest(1, 0) == 3);
}

namespace {

/// Odd stages hold two layers, even ones one; counts the questions.
struct alternating {
  int* asked;
  bool operator()(int stage, int begin, int end) const { return ++*asked, end - begin <= 1 + stage % 2; }
  bool same(int s, int t) const { return s % 2 == t % 2; }
};

}  // namespace

TEST_CASE("stages with the same limits are asked once") {
  const int kind_of[] = {0, 0, 0, 0};
  const partition_problem four{.layers = 3, .stages = 4, .costs = costs, .kinds = 1, .kind_of = kind_of};
  int asked = 0, all_asked = 0;
  const detail::range_sums known(four, alternating{&asked});
  const detail::range_sums each(four,
                                [&](int s, int begin, int end) { return alternating{&all_asked}(s, begin, end); });
  for (int s = 0; s < 4; ++s)
    for (int begin = 0; begin < 3; ++begin) {
      CHECK(known.furthest(s, begin) == each.furthest(s, begin));
      CHECK(known.reach(s, begin) == each.reach(s, begin));
    }
  CHECK(2 * asked == all_asked);
}

TEST_CASE("the furthest end within the memory is known for each stage or for all") {
  const detail::range_sums each(problem, [](int stage, int begin, int end) { return end - begin <= stage; });
  for (int begin = 0; begin < 3; ++begin) CHECK(each.furthest(0, begin) == begin);
  for (int begin = 0; begin < 3; ++begin) CHECK(each.furthest(1, begin) == begin + 1);
  const detail::range_sums all(problem, [](int begin, int end) { return end - begin <= 2; });
  CHECK(all.furthest(0, 0) == 2);
  CHECK(all.furthest(1, 1) == 3);
}

namespace {

constexpr int far_readers[] = {2, 4, 4, 5};
constexpr transfer transfers[] = {{.writer = 0, .readers = far_readers, .reader_count = 4, .time = 10},
                                  {.writer = 1, .time = 1, .gradient = false},
                                  {.writer = 4, .time = 100, .gradient = false}};
constexpr partition_problem skipping{.layers = 6, .stages = 1, .transfers = transfers, .transfer_count = 3};

constexpr std::int64_t charge(int begin, int end) {
  const detail::transfer_charges all(skipping);
  detail::transfer_charges::running_charge charges(all, begin);
  for (int l = begin; l < end; ++l) charges.add(l);
  return charges.charge();
}

static_assert(charge(0, 6) == 0);   // one stage sends nothing
static_assert(charge(0, 1) == 20);  // sent once, for any number of readers
static_assert(charge(0, 2) == 21 && charge(0, 3) == 20);
static_assert(charge(0, 5) == 120);                      // its last reader is still outside
static_assert(charge(1, 2) == 1);                        // the skip passes it: no charge
static_assert(charge(2, 3) == 21);                       // it reads both
static_assert(charge(3, 4) == 0 && charge(3, 6) == 20);  // received once for three inputs
static_assert(charge(4, 5) == 120 && charge(5, 6) == 120);

}  // namespace

TEST_CASE("transfers that take no time are ignored") {
  const transfer free{.writer = 0, .time = 0};
  CHECK_FALSE(detail::transfer_charges({.layers = 2, .transfers = &free, .transfer_count = 1}).any());
  CHECK(detail::transfer_charges(skipping).any());
}
