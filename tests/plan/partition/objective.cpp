#include <gpipe/plan/partition/objective.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/schedule/fill_drain.hpp>

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

TEST_CASE("an objective beyond 64 bits is rejected") {
  constexpr std::int64_t max = (std::numeric_limits<std::int64_t>::max)();
  const pass_cost huge[] = {{max / 4, max / 4}};
  const int first[] = {0, 1};
  CHECK(objective_of({.layers = 1, .micro_batches = 1, .costs = huge}, first) == max / 4 * 2);
  CHECK_THROWS_WITH_AS(objective_of({.layers = 1, .micro_batches = 3, .costs = huge}, first),
                       doctest::Contains("3 micro-batches exceed 64 bits"), error);
}

namespace {

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
  const int unended[] = {0, 2, 4, 4};
  CHECK_THROWS_WITH_AS(objective_of(uneven, unended), doctest::Contains("stage 2"), error);
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

namespace {

// M = 4. The last stage keeps all sets, the first keeps one: 3 + 3 or 3 + 5 or 5 + 5 ... of its three steps.
constexpr std::int64_t path_of_two() {
  const backward_path path(4);
  std::int64_t h[4] = {};
  path.extend(h, 9, 3, 4, h);
  path.extend(h, 2, 3, 1, h);
  return h[3];
}
static_assert(path_of_two() == 3 * 5);

constexpr std::int64_t none[4] = {};
static_assert(backward_path(4).size() == 4 && backward_path(4).shortest(none, 7) == 21);

}  // namespace

TEST_CASE("the longest path is that of the simulated step") {
  std::mt19937 random(11);
  const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int i = 0; i < 500; ++i) {
    const int S = 1 + below(5), M = 1 + below(7);
    std::vector<stage_times> times(static_cast<std::size_t>(S));
    std::vector<int> kept(static_cast<std::size_t>(S));
    std::vector<stage_link> links;
    for (int s = 0; s + 1 < S; ++s) links.push_back({s, s + 1, true});
    const backward_path path(M);
    std::vector<std::int64_t> h(static_cast<std::size_t>(M));
    std::int64_t once = 0, forward = 0;
    for (int s = S - 1; s >= 0; --s) {
      stage_times& it = times[static_cast<std::size_t>(s)];
      it = {below(20), below(20), 0};
      kept[static_cast<std::size_t>(s)] = 1 + below(M);
      path.extend(h.data(), it.forward, it.backward_input, kept[static_cast<std::size_t>(s)], h.data());
      once += it.forward + it.backward_input;
      forward = it.forward > forward ? it.forward : forward;
    }
    const std::int64_t step = simulate(
        fill_drain{},
        {S, M, {recompute_mode::as_needed, kept.data()}, times.data(), links.data(), static_cast<int>(links.size())});
    REQUIRE(once + (M - 1) * forward + h.back() == step);
  }
}
