#include <gpipe/plan/cut/step_time_bound.hpp>

#include <doctest/doctest.h>

#include <gpipe/plan/program/simulate.hpp>

#include <iterator>
#include <random>
#include <vector>

using namespace gpipe;

namespace {

constexpr layer_cost even[] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
// Where stages are equal, the closed forms: (4 + 8 - 1) x 3, and with recompute one that is never in the way.
static_assert(schedule_lower_bound(fill_drain{}, even, 4, 4, 8, recompute_mode::never) == 33);
static_assert(schedule_lower_bound(fill_drain{}, even, 4, 4, 8, recompute_mode::except_last) == 40);
static_assert(schedule_lower_bound(one_f_one_b{}, even, 4, 4, 8, recompute_mode::never) == 33);
static_assert(schedule_lower_bound(one_f_one_b{}, even, 4, 4, 8, recompute_mode::always) == 40);
static_assert(schedule_lower_bound(forward_only{}, even, 4, 4, 8, recompute_mode::never) == 11);
static_assert(schedule_lower_bound(zb_v{}, even, 4, 4, 8, recompute_mode::never) == 48);
// One micro-batch goes forward through all stages and back, whatever the share of a worker and the bottleneck are.
static_assert(schedule_lower_bound(zb_v{}, even, 4, 4, 1, recompute_mode::never) == 8);
static_assert(schedule_lower_bound(zb_h1{}, even, 4, 4, 1, recompute_mode::never) == 8);

/// The shortest step of all cuts.
template <class Schedule>
std::int64_t shortest(const Schedule& schedule, const std::vector<layer_cost>& costs, int S, int M,
                      recompute_mode mode) {
  const int L = static_cast<int>(costs.size());
  const bool split = schedule.trains && detail::splits_backward(schedule, S, M);
  std::int64_t min = INT64_MAX;
  for (unsigned mask = 0; mask < 1u << (L - 1); ++mask) {  // bit l: a cut behind layer l
    std::vector<stage_times> stages(1);
    std::vector<stage_link> links;
    bool gradient = false;  // to what is before the first layer that has a backward none flows
    for (int l = 0; l < L; ++l) {
      const layer_cost& c = costs[static_cast<std::size_t>(l)];
      stage_times& held = stages.back();
      held.forward += c.forward;
      held.backward_input += c.backward_input + (split ? 0 : c.backward_parameters);
      held.backward_parameters += split ? c.backward_parameters : 0;
      gradient = gradient || c.backward_input + c.backward_parameters > 0;
      if ((mask >> l & 1u) == 0) continue;
      const int at = static_cast<int>(stages.size());
      links.push_back({at - 1, at, gradient});
      stages.emplace_back();
    }
    if (static_cast<int>(stages.size()) != S) continue;
    const std::int64_t time =
        simulate(schedule, {S, M, mode, stages.data(), links.data(), static_cast<int>(links.size())});
    min = time < min ? time : min;
  }
  return min;
}

}  // namespace

TEST_CASE("no cut of any schedule beats the bound, and the best of fill-drain reaches it") {
  std::mt19937 random(3);
  const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  constexpr recompute_mode modes[] = {recompute_mode::never, recompute_mode::always, recompute_mode::except_last};
  constexpr int kinds = static_cast<int>(std::size(schedule_kinds));
  int tried[kinds]{}, reached[kinds]{};
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    std::vector<layer_cost> costs(static_cast<std::size_t>(2 + below(6)));
    for (layer_cost& c : costs) c = {below(20), below(20), below(20)};
    if (below(3) == 0)
      for (std::size_t l = 0, end = 1 + random() % costs.size(); l < end; ++l) costs[l] = {costs[l].forward, 0, 0};
    const int L = static_cast<int>(costs.size()), S = 1 + below(L < 4 ? L : 4), M = 1 + below(6);
    const recompute_mode mode = modes[below(3)];
    const schedule_kind kind = schedule_kinds[static_cast<std::size_t>(below(kinds))];
    CAPTURE(name_of(kind));
    with_schedule(kind, [&](auto schedule) {
      if (!schedule.admits(S, M)) return;
      const std::int64_t bound = schedule_lower_bound(schedule, costs.data(), L, S, M, mode);
      const std::int64_t best = shortest(schedule, costs, S, M, mode);
      REQUIRE(bound <= best);
      ++tried[static_cast<int>(kind)];
      reached[static_cast<int>(kind)] += bound == best;
      const bool chained = costs[0].backward_input + costs[0].backward_parameters > 0;  // gradients reach every stage
      if (kind == schedule_kind::forward_only ||
          (kind == schedule_kind::fill_drain && (chained || mode == recompute_mode::never)))
        REQUIRE(bound == best);
    });
  }
  for (const int count : tried) CHECK(count > 20);
  CHECK(4 * reached[static_cast<int>(schedule_kind::one_f_one_b)] >
        tried[static_cast<int>(schedule_kind::one_f_one_b)]);
}

TEST_CASE("memory limits never reduce the bound") {
  const layer_cost costs[] = {{5, 5, 5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  const auto two_or_fewer = [](int, int begin, int end) { return end - begin <= 2; };
  CHECK(schedule_lower_bound(one_f_one_b{}, costs, 4, 2, 4, recompute_mode::never, two_or_fewer) >
        schedule_lower_bound(one_f_one_b{}, costs, 4, 2, 4, recompute_mode::never));
}
