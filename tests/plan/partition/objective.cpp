#include <gpipe/plan/partition/objective.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;

namespace {

// Slots 0 ... 4, each one forward and two back; kind 1 takes ten times as long. Slot 0's value is read by 2 and 4.
constexpr slot_cost costs[] = {{1, 2},   {1, 2},   {1, 2},   {1, 2},   {1, 2},
                               {10, 20}, {10, 20}, {10, 20}, {10, 20}, {10, 20}};
constexpr int readers[] = {2, 4}, slow_second[] = {0, 1, 0};
constexpr transfer skip{.writer = 0, .readers = readers, .reader_count = 2, .time = 100};

constexpr std::int64_t bottleneck(const int* first, const transfer* t) {
  return objective_of({.slots = 5, .stages = 3, .costs = costs, .transfers = t, .transfer_count = t != nullptr,
                       .goal = objective::bottleneck},
                      first);
}

constexpr int thirds[] = {0, 1, 4, 5}, passing[] = {0, 2, 4, 5}, passed[] = {0, 1, 2, 5};
static_assert(bottleneck(thirds, nullptr) == 9);
static_assert(bottleneck(thirds, &skip) == 209);   // the stage in the middle reads it, too
static_assert(bottleneck(passing, &skip) == 206);
static_assert(bottleneck(passed, &skip) == 209);   // the stage in the middle is merely passed; two readers, one charge

constexpr transfer one_way{.writer = 0, .time = 100, .gradient = false}, chained{.writer = 3, .time = 7};
static_assert(bottleneck(passed, &one_way) == 103);  // no gradient, no way back
static_assert(bottleneck(passing, &one_way) == 6);  // within a stage it is free
static_assert(bottleneck(thirds, &chained) == 9 + 14);

constexpr partition_problem uneven{.slots = 5, .stages = 3, .micro_batches = 4, .costs = costs, .kinds = 2,
                                   .kind_of = slow_second};
static_assert(objective_of(uneven, passing) == 6 + 60 + 3 + 3 * (20 + 40));
static_assert(fill_drain_makespan(costs, 5, passing, 3, 4) == 15 + 3 * (2 + 4));

constexpr int taken() {
  const int between[] = {3, 4};
  int first[4] = {};
  take_cut(between, 2, 5, 3, first);
  return first[0] + 10 * first[1] + 100 * first[2] + 1000 * first[3];
}
static_assert(taken() == 5430);

}  // namespace

TEST_CASE("a cut that is none is refused with its stage") {
  int first[4];
  const int one[] = {2}, back[] = {3, 2}, twice[] = {2, 2}, outside[] = {2, 5}, whole[] = {0, 2}, good[] = {1, 3};
  CHECK_THROWS_WITH_AS(take_cut(one, 1, 5, 3, first), doctest::Contains("names 1 place, not 2, for 3 stages"), error);
  CHECK_THROWS_WITH_AS(take_cut(back, 2, 5, 3, first), doctest::Contains("stage 1: a stage holds the slots [3, 2)"),
                       error);
  CHECK_THROWS_WITH_AS(take_cut(twice, 2, 5, 3, first), doctest::Contains("[2, 2)"), error);
  CHECK_THROWS_WITH_AS(take_cut(outside, 2, 5, 3, first), doctest::Contains("stage 2"), error);
  CHECK_THROWS_WITH_AS(take_cut(whole, 2, 5, 3, first), doctest::Contains("stage 0"), error);
  CHECK_NOTHROW(take_cut(good, 2, 5, 3, first));
  const auto two = [](int begin, int end) { return end - begin < 2; };
  CHECK_THROWS_WITH_AS(take_cut(good, 2, 5, 3, first, two), doctest::Contains("stage 1: the slots [1, 3) do not fit"),
                       error);
  const auto last = [](int stage, int begin, int end) { return stage < 2 || end - begin < 2; };
  CHECK_THROWS_WITH_AS(take_cut(good, 2, 5, 3, first, last), doctest::Contains("stage 2"), error);
  const int unended[] = {0, 2, 4, 4};
  CHECK_THROWS_WITH_AS(objective_of(uneven, unended), doctest::Contains("stage 2"), error);
}

TEST_CASE("an objective beyond 64 bits is refused") {
  constexpr std::int64_t most = (std::numeric_limits<std::int64_t>::max)();
  const slot_cost huge[] = {{most / 4, most / 4}};
  const int first[] = {0, 1};
  CHECK(objective_of({.slots = 1, .micro_batches = 1, .costs = huge}, first) == most / 4 * 2);
  CHECK_THROWS_WITH_AS(objective_of({.slots = 1, .micro_batches = 3, .costs = huge}, first),
                       doctest::Contains("3 micro-batches exceed 64 bits"), error);
}
