#include <gpipe/plan/partition/partition.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <random>
#include <utility>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// The best makespan of all cuts, and the smallest largest f + b among the cuts with the same maxima as `first`.
struct brute {
  std::int64_t makespan = (std::numeric_limits<std::int64_t>::max)();
  std::int64_t both = (std::numeric_limits<std::int64_t>::max)();
};

struct maxima {
  std::int64_t forward = 0, backward = 0, both = 0;
};

constexpr maxima maxima_of(const pass_cost* costs, const int* first, int stages) {
  maxima max;
  for (int s = 0; s < stages; ++s) {
    pass_cost held;
    for (int l = first[s]; l < first[s + 1]; ++l) {
      held.forward += costs[l].forward;
      held.backward += costs[l].backward;
    }
    if (held.forward > max.forward) max.forward = held.forward;
    if (held.backward > max.backward) max.backward = held.backward;
    if (held.forward + held.backward > max.both) max.both = held.forward + held.backward;
  }
  return max;
}

constexpr brute brute_force(const pass_cost* costs, int layers, int stages, int micro_batches, const int* found) {
  const maxima limit = maxima_of(costs, found, stages);
  brute best;
  for (unsigned mask = 0; mask < 1u << (layers - 1); ++mask) {  // bit l: a cut after layer l
    int first[16] = {}, count = 1;
    for (int l = 0; l + 1 < layers; ++l)
      if (mask >> l & 1u) {
        if (count < stages) first[count] = l + 1;
        ++count;
      }
    if (count != stages) continue;
    first[stages] = layers;
    const std::int64_t makespan = fill_drain_makespan(costs, layers, first, stages, micro_batches);
    if (makespan < best.makespan) best.makespan = makespan;
    const maxima max = maxima_of(costs, first, stages);
    const bool same = micro_batches == 1 || (max.forward <= limit.forward && max.backward <= limit.backward);
    if (same && max.both < best.both) best.both = max.both;
  }
  return best;
}

constexpr bool agrees(const pass_cost* costs, int layers, int stages, int micro_batches) {
  int first[16] = {};
  partition(costs, layers, stages, micro_batches, first);
  const brute best = brute_force(costs, layers, stages, micro_batches, first);
  return fill_drain_makespan(costs, layers, first, stages, micro_batches) == best.makespan &&
         maxima_of(costs, first, stages).both == best.both;
}

constexpr bool agrees_everywhere() {
  const pass_cost mixed[] = {{1, 7}, {5, 1}, {0, 0}, {4, 4}, {9, 0}, {0, 9}, {3, 2}};
  const pass_cost equal[] = {{2, 4}, {2, 4}, {2, 4}, {2, 4}, {2, 4}, {2, 4}, {2, 4}};
  const pass_cost zeros[7] = {};
  for (const pass_cost* costs : {mixed, equal, zeros})
    for (int S = 1; S <= 7; ++S)
      for (const int M : {1, 5})
        if (!agrees(costs, 7, S, M)) return false;
  return true;
}
static_assert(agrees_everywhere());  // random instances: tests/laws/partition.cpp

struct cut_of_nine {
  int first[10] = {};
  std::int64_t value = 0;
};

/// The largest Transformer of the paper: an embedding, 1663 layers with a head at the end, 128 stages.
struct large {
  static constexpr int layers = 1665, stages = 128;
  pass_cost costs[layers] = {};
  int first[stages + 1] = {};

  constexpr large() {
    for (int l = 0; l < layers; ++l) costs[l] = {103'079'215'104, 309'237'645'312};
    costs[0] = {2'097'152, 67'108'864};
    costs[layers - 1] = {134'217'728'000, 268'435'456'000};
    partition(costs, layers, stages, 32, first);
  }
};
constexpr large largest;
static_assert(largest.first[0] == 0 && largest.first[large::stages] == large::layers);
static_assert(fill_drain_makespan(largest.costs, large::layers, largest.first, large::stages, 1) > 0);

/// 1663 different layers for which the two criteria conflict.
struct uneven {
  static constexpr int layers = 1663, stages = 128;
  int first[stages + 1] = {};

  constexpr uneven() {
    pass_cost costs[layers] = {};
    std::uint64_t state = 7;
    const auto draw = [&state] {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<std::int64_t>((state >> 33) % 1'000'000'007);
    };
    for (pass_cost& cost : costs) {
      cost.forward = 1'000'000'000 + draw();
      cost.backward = 2 * cost.forward + draw();
    }
    partition(costs, layers, stages, 32, first);
  }
};
constexpr uneven uneven_cut;
static_assert(uneven_cut.first[uneven::stages] == uneven::layers);

}  // namespace

TEST_CASE("the two maxima may belong to different stages") {
  // Balancing f + b cuts 2 | 1, with a period of 3 + 4. The best cut is 1 | 2, with a period of 3 + 2.
  const pass_cost costs[] = {{0, 2}, {0, 2}, {3, 0}};
  int first[3];
  partition(costs, 3, 2, 9, first);
  CHECK(first[1] == 1);
  CHECK(fill_drain_makespan(costs, 3, first, 2, 9) == 7 + 8 * 5);
  partition(costs, 3, 2, 1, first);  // with one micro-batch there is no period, so the balance decides
  CHECK(first[1] == 2);
}

TEST_CASE("equal layers are spread evenly, layers without cost, too") {
  pass_cost costs[12];
  int first[6];
  partition(costs, 12, 5, 8, first);
  for (int s = 0; s < 5; ++s) CHECK(first[s + 1] - first[s] >= 2);
  for (pass_cost& cost : costs) cost = {1, 2};
  partition(costs, 12, 5, 8, first);
  for (int s = 0; s < 5; ++s) CHECK(first[s + 1] - first[s] >= 2);
}

TEST_CASE("the same costs give the same cut at compile time and at run time") {
  int first[large::stages + 1];
  partition(largest.costs, large::layers, large::stages, 32, first);
  for (int s = 0; s <= large::stages; ++s) CHECK(first[s] == largest.first[s]);
  for (int s = 0; s < large::stages; ++s) CHECK(first[s + 1] - first[s] >= 13);
  for (int s = 0; s < large::stages; ++s) CHECK(first[s + 1] - first[s] <= 14);
}

TEST_CASE("among cuts with the same makespan the largest stage is smallest, for any maxima") {
  // 1 | 2 has maxima 2 + 4 and a stage of 6; 2 | 1 has 3 + 3 and no stage above 4.
  const pass_cost costs[] = {{2, 0}, {1, 1}, {1, 3}};
  int first[3];
  partition(costs, 3, 2, 8, first);
  CHECK(first[1] == 2);
  CHECK(fill_drain_makespan(costs, 3, first, 2, 8) == 8 + 7 * 6);
}

TEST_CASE("equal devices and limits give the same cut, however they are described") {
  std::mt19937 random(5);
  for (int instance = 0; instance < 400; ++instance) {
    const int layers = 1 + static_cast<int>(random() % 40), S = 1 + static_cast<int>(random() % unsigned(layers));
    pass_cost costs[80];
    int kind_of[40], plain[41], kinds[41], limits[41];
    for (int l = 0; l < layers; ++l) {
      costs[l] = {static_cast<std::int64_t>(random() % 9), static_cast<std::int64_t>(random() % 9)};
      if (instance % 3 == 0 && random() % 2 == 0) costs[l] = {};
      costs[layers + l] = costs[l];
    }
    for (int s = 0; s < S; ++s) kind_of[s] = static_cast<int>(random() % 2);
    partition_problem p{
        .layers = layers, .stages = S, .micro_batches = 4, .costs = costs, .goal = objective::bottleneck};
    const auto fits = [layers](int, int begin, int end) { return end - begin <= layers; };
    partition(p, plain);
    partition(p, limits, fits);
    p.kinds = 2;
    p.kind_of = kind_of;
    partition(p, kinds);
    for (int s = 0; s <= S; ++s) {
      CHECK(kinds[s] == plain[s]);
      CHECK(limits[s] == plain[s]);
    }
  }
}

/// 60 layers on three kinds of devices with skips, cut at compile time and again at run time.
struct unequal {
  static constexpr int layers = 60, stages = 9;
  pass_cost costs[3 * layers] = {};
  int kind_of[stages] = {0, 0, 1, 1, 2, 2, 2, 0, 1}, readers[2 * layers] = {};
  transfer transfers[layers] = {};

  constexpr unequal() {
    for (int l = 0; l < layers; ++l) {
      for (int k = 0; k < 3; ++k) costs[k * layers + l] = {(k + 2) * (10 + l * l % 7), (k + 2) * (20 + l * l % 11)};
      readers[2 * l] = l + 1;
      readers[2 * l + 1] = l % 5 == 0 && l + 7 < layers ? l + 7 : l + 1;
      transfers[l] = {.writer = l, .reader_count = 2, .time = 5 + l % 4, .gradient = l % 3 != 0};
    }
  }
  constexpr partition_problem problem(objective goal) const {
    return {.layers = layers,
            .stages = stages,
            .micro_batches = 16,
            .costs = costs,
            .kinds = 3,
            .kind_of = kind_of,
            .transfers = transfers,
            .transfer_count = goal == objective::bottleneck ? layers - 1 : 0,
            .goal = goal};
  }
  constexpr cut_of_nine cut(objective goal) {
    for (int l = 0; l < layers; ++l) transfers[l].readers = readers + 2 * l;
    cut_of_nine found;
    partition(problem(goal), found.first);
    found.value = objective_of(problem(goal), found.first);
    return found;
  }
};

constexpr cut_of_nine cut_of(objective goal) { return unequal().cut(goal); }

TEST_CASE("unequal devices and skips are cut the same at compile time and at run time") {
  constexpr cut_of_nine early[] = {cut_of(objective::fill_drain), cut_of(objective::bottleneck)};
  for (const objective goal : {objective::fill_drain, objective::bottleneck}) {
    const cut_of_nine late = cut_of(goal), &other = early[static_cast<int>(goal)];
    CHECK(late.value == other.value);
    for (int s = 0; s <= unequal::stages; ++s) CHECK(late.first[s] == other.first[s]);
  }
}

TEST_CASE("the balance that torchgpipe expects of its own partition") {
  const auto sizes = [](std::initializer_list<int> costs) {
    pass_cost all[6];
    int count = 0, first[3];
    for (const int cost : costs) all[count++] = {cost, 0};
    partition({.layers = count, .stages = 2, .costs = all, .goal = objective::bottleneck}, first);
    return std::pair{first[1] - first[0], first[2] - first[1]};
  };
  CHECK(sizes({1, 2, 3, 4, 5, 6}) == std::pair{4, 2});
  CHECK(sizes({6, 5, 4, 3, 2, 1}) == std::pair{2, 4});
  CHECK(sizes({0, 0}) == std::pair{1, 1});
}

TEST_CASE("the distance from the optimum is reported") {
  const pass_cost costs[] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};
  const partition_problem p{.layers = 4, .stages = 2, .micro_batches = 3, .costs = costs};
  const int even[] = {0, 2, 4}, uneven[] = {0, 1, 4}, none[] = {0, 4, 4};
  CHECK(distance_from_optimum(p, even).of_cut == 12 + 2 * 6);
  CHECK(distance_from_optimum(p, even).optimum == 12 + 2 * 6);
  CHECK(distance_from_optimum(p, uneven).of_cut == 12 + 2 * 9);
  CHECK(distance_from_optimum(p, uneven).optimum == 12 + 2 * 6);
  CHECK_THROWS_WITH_AS(distance_from_optimum(p, none), doctest::Contains("stage 1"), error);
  const auto two = [](int begin, int end) { return end - begin <= 2; };
  CHECK_THROWS_WITH_AS(distance_from_optimum(p, uneven, two), doctest::Contains("[1, 4) do not fit"), error);
}

TEST_CASE("the error names a layer that does not fit any stage") {
  const pass_cost costs[3] = {};
  int first[4];
  const auto not_the_third = [](int begin, int end) { return begin > 2 || end <= 2; };
  CHECK_THROWS_WITH_AS(partition(costs, 3, 2, 1, first, not_the_third),
                       doctest::Contains("layer 2: layer 2 alone does not fit the memory of any stage"), error);
  const auto staged = [](int stage, int begin, int end) { return (begin > 1 || end <= 1) && end - begin <= 2 - stage; };
  const partition_problem p{.layers = 3, .stages = 2, .costs = costs};
  CHECK_THROWS_WITH_AS(partition(p, first, staged), doctest::Contains("layer 1 alone"), error);
  const auto one = [](int stage, int begin, int end) { return stage < 2 && end - begin <= 1; };
  CHECK_THROWS_WITH_AS(partition(p, first, one), doctest::Contains("no cut of 3 layers into 2 stages"), error);
}

TEST_CASE("errors of bad counts and costs contain the numbers") {
  pass_cost costs[] = {{1, 2}, {1, 2}};
  int first[4] = {};
  CHECK_THROWS_WITH_AS(partition(costs, 2, 0, 1, first),
                       doctest::Contains("stages is 0, but the model has 2 layers; choose 1 to 2"), error);
  CHECK_THROWS_WITH_AS(partition(costs, 2, 3, 1, first), doctest::Contains("stages is 3, but the model has 2 layers"),
                       error);
  CHECK_THROWS_WITH_AS(partition(costs, 2, 1, 0, first), doctest::Contains("micro_batches is 0"), error);
  first[1] = 2;
  CHECK_THROWS_WITH_AS(fill_drain_makespan(costs, 2, first, 2, 1), doctest::Contains("stage 1"), error);
  costs[1].backward = -4;
  CHECK_THROWS_WITH_AS(partition(costs, 2, 1, 1, first), doctest::Contains("backward -4"), error);
  CHECK_THROWS_WITH_AS(partition(costs, 2, 1, 1, first), doctest::Contains("layer 1"), error);
  const int kinds[] = {0, 1};
  const partition_problem p{.layers = 1, .stages = 1, .costs = costs, .kinds = 2, .kind_of = kinds + 1};
  CHECK_THROWS_WITH_AS(partition(p, first), doctest::Contains("backward -4"), error);
}

TEST_CASE("costs beyond 64 bits are rejected, smaller ones accepted") {
  constexpr std::int64_t max = (std::numeric_limits<std::int64_t>::max)();
  const pass_cost over[] = {{max / 2, max / 2}, {2, 0}};
  int first[3];
  CHECK_THROWS_WITH_AS(partition(over, 2, 2, 1, first), doctest::Contains("exceed 64 bits"), error);
  const pass_cost within[] = {{max / 4, max / 4}, {max / 4, max / 4 - 9}};
  partition(within, 2, 2, 2, first);
  CHECK(first[1] == 1);
  CHECK(fill_drain_makespan(within, 2, first, 2, 1) == max / 4 * 4 - 9);
  CHECK_THROWS_WITH_AS(fill_drain_makespan(within, 2, first, 2, 4), doctest::Contains("4 micro-batches"), error);
  const auto staged = [](int, int, int) { return true; };
  CHECK_THROWS_WITH_AS(partition({.layers = 2, .stages = 2, .micro_batches = 4, .costs = within}, first, staged),
                       doctest::Contains("4 micro-batches exceed 64 bits"), error);
  const transfer far{.writer = 0, .time = max / 4};
  CHECK_THROWS_WITH_AS(partition({.layers = 2,
                                  .stages = 2,
                                  .costs = within,
                                  .transfers = &far,
                                  .transfer_count = 1,
                                  .goal = objective::bottleneck},
                                 first),
                       doctest::Contains("exceed 64 bits"), error);
}
