#include <gpipe/plan/partition/objective.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// Layers 0 ... 4 with forward 1 and backward 2; kind 1 takes ten times as long. Layers 2 and 4 read layer 0's value.
constexpr pass_cost costs[] = {{1, 2},   {1, 2},   {1, 2},   {1, 2},   {1, 2},
                               {10, 20}, {10, 20}, {10, 20}, {10, 20}, {10, 20}};
constexpr int readers[] = {2, 4}, slow_second[] = {0, 1, 0};
constexpr transfer skip{.writer = 0, .readers = readers, .reader_count = 2, .time = 100};

constexpr std::int64_t bottleneck(const int* first, const transfer* t) {
  return objective_of({.layers = 5,
                       .stages = 3,
                       .costs = costs,
                       .transfers = t,
                       .transfer_count = t != nullptr,
                       .goal = objective::bottleneck},
                      first);
}

constexpr int thirds[] = {0, 1, 4, 5}, passing[] = {0, 2, 4, 5}, passed[] = {0, 1, 2, 5};
static_assert(bottleneck(thirds, nullptr) == 9);
static_assert(bottleneck(thirds, &skip) == 209);  // the middle stage reads it, too
static_assert(bottleneck(passing, &skip) == 206);
static_assert(bottleneck(passed, &skip) ==
              209);  // the middle stage does not read it; two readers in a stage, one charge

constexpr transfer one_way{.writer = 0, .time = 100, .gradient = false}, chained{.writer = 3, .time = 7};
static_assert(bottleneck(passed, &one_way) == 103);  // without a gradient there is no way back
static_assert(bottleneck(passing, &one_way) == 6);   // it is free within a stage
static_assert(bottleneck(thirds, &chained) == 9 + 14);

// Both forwards run again. The gradient waits for the stage at which this ends last: 4 + 2 + 4, and not 4 + 2 + 1 + 2
// + 1.
constexpr pass_cost rerun[] = {{4, 6, 4}, {1, 3, 1}};
constexpr int both_ends[] = {0, 1, 2};
constexpr std::int64_t with_rerun(int micro_batches, bool first_again) {
  return objective_of(
      {.layers = 2, .stages = 2, .micro_batches = micro_batches, .costs = rerun, .recomputes_first = first_again},
      both_ends);
}
static_assert(with_rerun(1, false) == 4 + 2 + 1 + 2);
static_assert(with_rerun(1, true) == 4 + 2 + 4);
static_assert(with_rerun(3, false) == 9 + 2 * (4 + 6) && with_rerun(3, true) == 10 + 2 * (4 + 6));

constexpr partition_problem uneven{
    .layers = 5, .stages = 3, .micro_batches = 4, .costs = costs, .kinds = 2, .kind_of = slow_second};
static_assert(objective_of(uneven, passing) == 6 + 60 + 3 + 3 * (20 + 40));
static_assert(fill_drain_makespan(costs, 5, passing, 3, 4) == 15 + 3 * (2 + 4));

}  // namespace

TEST_CASE("the error of an invalid cut names its stage") {
  const int unended[] = {0, 2, 4, 4};
  CHECK_THROWS_WITH_AS(objective_of(uneven, unended), doctest::Contains("stage 2"), error);
}

TEST_CASE("an objective beyond 64 bits is rejected") {
  constexpr std::int64_t max = (std::numeric_limits<std::int64_t>::max)();
  const pass_cost huge[] = {{max / 4, max / 4}};
  const int first[] = {0, 1};
  CHECK(objective_of({.layers = 1, .micro_batches = 1, .costs = huge}, first) == max / 4 * 2);
  CHECK_THROWS_WITH_AS(objective_of({.layers = 1, .micro_batches = 3, .costs = huge}, first),
                       doctest::Contains("3 micro-batches exceed 64 bits"), error);
}
