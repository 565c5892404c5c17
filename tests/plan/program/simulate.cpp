#include <gpipe/plan/program/simulate.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct chain {
  stage_link links[64] = {};
  stage_times times[64] = {};
  link_times transfers[64] = {};

  constexpr chain(int stages, stage_times each, link_times on_the_way = {}) {
    for (int s = 0; s < stages; ++s) {
      links[s] = {s, s + 1};
      times[s] = each;
      transfers[s] = on_the_way;
    }
  }
  constexpr simulation_input terms(int S, int M, recompute_choice recompute = {},
                                   send_mode sends = send_mode::buffered) const {
    return {S, M, recompute, times, links, S - 1, transfers, sends};
  }
};

template <class Schedule>
constexpr std::int64_t length(Schedule schedule, int S, int M, stage_times each, recompute_choice recompute = {},
                              send_mode sends = send_mode::buffered) {
  return simulate(schedule, chain(S, each).terms(S, M, recompute, sends));
}

// Forward 1, backward 2, recompute 1, free transfers: closed forms, whether or not a send waits for its receive. Each
// number is a constant evaluation of its own.
template <class Schedule, int K, int M, recompute_mode Mode, send_mode Sends>
constexpr std::int64_t steps = length(Schedule{}, K, M, {1, 2, 0}, Mode, Sends);

template <int K, int M, int Drain, int Again, int Early, int SkipLast, int InTurn, int InTurnEarly, send_mode Sends>
struct closed_forms {
  using mode = recompute_mode;
  static_assert(steps<fill_drain, K, M, mode::never, Sends> == Drain);
  static_assert(fill_drain::makespan(K, M, 1, 2 + 1) == Again);  // recompute that waits for the gradient
  static_assert(steps<fill_drain, K, M, mode::always, Sends> == Early);
  static_assert(steps<fill_drain, K, M, mode::except_last, Sends> == SkipLast);
  static_assert(steps<fill_drain, K, M, mode::as_needed, Sends> == SkipLast);
  static_assert(steps<one_f_one_b, K, M, mode::never, Sends> == InTurn);
  static_assert(steps<one_f_one_b, K, M, mode::as_needed, Sends> == InTurnEarly);  // which spares the last stage
  static_assert(steps<one_f_one_b, K, M, mode::always, Sends> == InTurnEarly + 2);
};
template struct closed_forms<4, 8, 33, 44, 41, 40, 33, 39, send_mode::synchronous>;
template struct closed_forms<4, 8, 33, 44, 41, 40, 33, 39, send_mode::buffered>;
template struct closed_forms<4, 32, 105, 140, 137, 136, 105, 135, send_mode::buffered>;
template struct closed_forms<8, 8, 45, 60, 53, 52, 45, 51, send_mode::synchronous>;
template struct closed_forms<8, 8, 45, 60, 53, 52, 45, 51, send_mode::buffered>;
template struct closed_forms<8, 32, 117, 156, 149, 148, 117, 147, send_mode::buffered>;
template struct closed_forms<16, 64, 237, 316, 301, 300, 237, 299, send_mode::buffered>;

// Idle time of a worker: (K - 1) (F + I - W), (K - 1) (F + B) / V of a chunk's time, and K - 1 chunks.
static_assert(length(zb_h1{}, 4, 12, {5, 4, 3}) == 12 * (5 + 4 + 3) + 3 * (5 + 4 - 3));
static_assert(length(interleaved{2}, 8, 8, {1, 2, 0}) == 2 * 8 * 3 + 3 * 3);
static_assert(length(zb_v{}, 8, 8, {1, 1, 1}) == 6 * 8 + 3);

constexpr stage_link pair[] = {{0, 1}, {1, 2}};

/// Stages and links that take as long as each other, four micro-batches.
void require(int stages, stage_times each, link_times on_the_way = {}) {
  const stage_times times[] = {each, each, each};
  const link_times transfers[] = {on_the_way, on_the_way};
  detail::require_times({stages, 4, recompute_mode::never, times, pair, stages - 1, transfers});
}

}  // namespace

TEST_CASE("ZB-H1 is idle for (K - 1) (F + I - W) where W <= F") {
  for (const stage_times each : {stage_times{1, 1, 1}, {2, 1, 1}, {3, 2, 2}, {2, 3, 1}, {5, 1, 0}, {4, 4, 4}})
    for (int K = 1; K <= 8; ++K)
      for (int M = K; M <= 20; ++M)
        for (const auto sends : {send_mode::synchronous, send_mode::buffered}) {
          const chain net(K, each);
          std::vector<std::int64_t> idle(static_cast<std::size_t>(K));
          const auto makespan = simulate(zb_h1{}, net.terms(K, M, {}, sends), {idle.data(), nullptr});
          const auto bubble = (K - 1) * (each.forward + each.backward_input - each.backward_parameters);
          CHECK(makespan == M * (each.forward + each.backward_input + each.backward_parameters) + bubble);
          CHECK(std::count(idle.begin(), idle.end(), bubble) == K);
        }
}

TEST_CASE("ZB-V takes 6 M + K - 1 equal chunk slots, and never less") {
  for (int K = 1; K <= 8; ++K)
    for (int M = 1; M <= 3 * K + 2; ++M)
      for (const auto sends : {send_mode::synchronous, send_mode::buffered}) {
        const auto makespan = length(zb_v{}, 2 * K, M, {1, 1, 1}, {}, sends);
        CHECK(makespan >= 6 * M + K - 1);
        if (M >= 2 * K - 1) CHECK(makespan == 6 * M + K - 1);
      }
}

TEST_CASE("interleaved 1F1B is idle for (K - 1) (F + B) of a chunk") {
  for (const stage_times each : {stage_times{1, 1, 0}, {1, 2, 0}, {2, 1, 0}, {3, 1, 0}})
    for (int V = 1; V <= 4; ++V)
      for (int K = 1; K <= 5; ++K)
        for (int M = K; M <= 4 * K; M += K)
          CHECK(length(interleaved{V}, V * K, M, each) == (V * M + K - 1) * (each.forward + each.backward_input));
}

TEST_CASE("the schedules' formulas equal the simulation") {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 12; ++M) {
      CHECK(length(fill_drain{}, S, M, {3, 5, 0}) == fill_drain::makespan(S, M, 3, 5));
      CHECK(length(one_f_one_b{}, S, M, {3, 5, 0}) == one_f_one_b::makespan(S, M, 3, 5));
      CHECK(length(forward_only{}, S, M, {3, 5, 0}) == forward_only::makespan(S, M, 3, 5));
    }
}

TEST_CASE("the peak of the stash is the schedule's, and idle plus busy time is the makespan") {
  for (const schedule_kind kind : schedule_kinds) {
    const int S = 8, M = 16;
    chain net(S, {1, 1, 1});
    net.times[3].forward = 7;
    std::int64_t idle[8];
    int peak[8];
    const auto makespan = simulate(kind, net.terms(S, M), {idle, peak});
    with_schedule(kind, [&](auto schedule) {
      for (int s = 0; s < S; ++s) CHECK(peak[s] == schedule.in_flight(S, M, s));
      std::int64_t busy = 0;
      for (int w = 0; w < schedule.workers(S); ++w) busy += makespan - idle[w];
      CHECK(busy == M * (schedule.trains ? 3 * S + 6 : S + 6));
    });
  }
}

TEST_CASE("unequal stages: fill-drain takes the sums and M - 1 times the slowest") {
  chain net(3, {});
  net.times[0] = {2, 9, 0};
  net.times[1] = {5, 1, 0};
  net.times[2] = {3, 4, 0};
  CHECK(simulate(fill_drain{}, net.terms(3, 6)) == (2 + 5 + 3) + (9 + 1 + 4) + 5 * (5 + 9));
}

TEST_CASE("transfers overlap with computing and queue on their link") {
  // A pipe: the first micro-batch passes all, the others follow at the pace of the slowest part.
  CHECK(simulate(forward_only{}, chain(4, {3, 0, 0}, {2, 0}).terms(4, 5)) == 4 * 3 + 3 * 2 + 4 * 3);
  CHECK(simulate(forward_only{}, chain(4, {3, 0, 0}, {7, 0}).terms(4, 5)) == 4 * 3 + 3 * 7 + 4 * 7);
  // The way back is another one.
  CHECK(simulate(fill_drain{}, chain(2, {1, 1, 0}, {0, 4}).terms(2, 1)) == 1 + 1 + 1 + 4 + 1);
  // The gradient leaves before the parameter part.
  CHECK(simulate(fill_drain{}, chain(2, {1, 1, 5}, {0, 5}).terms(2, 1)) == 1 + 1 + 1 + 5 + 1 + 5);
  // Synchronous programs may be longer, because they delay sends.
  for (const schedule_kind kind : schedule_kinds) {
    const chain net(4, {4, 4, 4}, {2, 2});
    CHECK(simulate(kind, net.terms(4, 8)) <= simulate(kind, net.terms(4, 8, {}, send_mode::synchronous)));
  }
}

TEST_CASE("recompute takes as long as forward, or its own time") {
  chain net(1, {3, 2, 1});
  CHECK(simulate(fill_drain{}, net.terms(1, 4, recompute_mode::always)) == 4 * (3 + 3 + 2 + 1));
  net.times[0].recompute = 2;
  CHECK(simulate(fill_drain{}, net.terms(1, 4, recompute_mode::always)) == 4 * (3 + 2 + 2 + 1));
  net.times[0].recompute = 0;
  CHECK(simulate(fill_drain{}, net.terms(1, 4, recompute_mode::always)) == 4 * (3 + 2 + 1));
}

TEST_CASE("invalid times are rejected") {
  CHECK_THROWS_WITH_AS(simulate(fill_drain{}, chain(2, {1, -1, 0}).terms(2, 4)),
                       doctest::Contains("stage 0 has a negative time"), error);
}

TEST_CASE("a table that does not run is rejected") {
  struct all_at_once : forward_only {
    static constexpr cell at(int, int M, int w, int t) { return t < M ? cell{action_kind::forward, w, t} : cell{}; }
  };
  CHECK_THROWS_WITH_AS(simulate(all_at_once{}, chain(2, {1, 0, 0}).terms(2, 3)),
                       doctest::Contains("the table of forward-only is wrong"), error);
  CHECK_THROWS_AS(simulate(interleaved{2}, chain(4, {1, 1, 0}).terms(4, 5)), error);
}

TEST_CASE("times that are negative or overflow are rejected") {
  constexpr auto max = (std::numeric_limits<std::int64_t>::max)();
  CHECK_NOTHROW(require(1, {max / 4, 0, 0, 0}));
  CHECK_THROWS_WITH_AS(require(1, {max / 4, 0, 1, 0}), doctest::Contains("overflows 64 bits"), error);
  CHECK_THROWS_WITH_AS(require(3, {max / 8, 0, 0, 0}), doctest::Contains("overflows 64 bits"), error);
  CHECK_THROWS_WITH_AS(require(2, {1, -1, 0}), doctest::Contains("stage 0 has a negative time"), error);
  CHECK_THROWS_WITH_AS(require(2, {1, 1, 0}, {0, -1}), doctest::Contains("link 0 has a negative time"), error);
}

TEST_CASE("a stage without a time to recompute takes as long as forward") {
  constexpr auto max = (std::numeric_limits<std::int64_t>::max)();
  CHECK_NOTHROW(require(1, {max / 8, 0, 0}));
  CHECK_THROWS_AS(require(1, {max / 8 + 1, 0, 0}), error);
  CHECK_NOTHROW(require(1, {max / 8 + 1, 0, 0, 0}));
}
