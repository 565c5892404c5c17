#include <gpipe/plan/schedule/interleaved.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/schedule/one_f_one_b.hpp>

using namespace gpipe;

static_assert(interleaved{2}.admits(8, 8) && interleaved{2}.admits(8, 4) && interleaved{1}.admits(3, 6));
static_assert(!interleaved{2}.admits(7, 8) && !interleaved{0}.admits(8, 8));
static_assert(!interleaved{2}.admits(0, 8) && !interleaved{2}.admits(8, 0) && !interleaved{4}.admits(2, 2));
static_assert(interleaved{2}.workers(8) == 4 && interleaved{2}.worker_of(8, 5) == 1);

// M < K, one group of 4 to 7, two groups of 5.
static_assert(interleaved{2}.admits(8, 3) && interleaved{2}.admits(8, 6) && interleaved{2}.admits(8, 10));
static_assert(!interleaved{2}.admits(8, 9) && !interleaved{2}.admits(8, 11));

namespace {

constexpr interleaved longest(int chunks) { return {chunks, warmup_kind::longest}; }

/// The step of equal stages whose links have a latency, in which forward takes 20 and backward 40, all of it
/// before the gradient leaves.
std::int64_t step(const interleaved& schedule, int K, int M, std::int64_t latency) {
  const auto count = static_cast<std::size_t>(schedule.chunks * K);
  const std::vector<stage_times> times(count, {20, 40, 0});
  std::vector<stage_link> links;
  for (int s = 0; s + 1 < schedule.chunks * K; ++s) links.push_back({s, s + 1});
  const std::vector<link_times> transfers(links.size(), {latency, latency});
  return simulate(schedule, {schedule.chunks * K, M, recompute_mode::never, times.data(), links.data(),
                             static_cast<int>(links.size()), transfers.data()});
}

/// Forwards of a worker before its first backward, and the maximum of chunks whose inputs it holds.
std::pair<int, int> warmup_and_peak(const interleaved& schedule, int S, int M, int worker) {
  int warmup = 0, held = 0, peak = 0;
  bool warm = true;
  for (int t = 0; t < schedule.ticks(S, M); ++t) {
    const cell c = schedule.at(S, M, worker, t);
    warm = warm && c.kind != action_kind::backward;
    warmup += warm && c.kind == action_kind::forward;
    held += (c.kind == action_kind::forward) - (c.kind == action_kind::backward);
    peak = std::max(peak, held);
  }
  return {warmup, peak};
}

}  // namespace

TEST_CASE("the tables match the drawings") {
  CHECK(describe(timetable(interleaved{2}, 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9\n"
        "worker 0  0F0  0F1  2F0  .    2F1  2B0  .    2B1  0B0  0B1\n"
        "worker 1  .    1F0  1F1  3F0  3B0  3F1  3B1  1B0  1B1  .\n");
  CHECK(describe(timetable(longest(2), 4, 2)) ==
        "tick      0    1    2    3    4    5    6    7    8    9    10\n"
        "worker 0  0F0  0F1  2F0  2F1  .    .    2B0  .    2B1  0B0  0B1\n"
        "worker 1  .    1F0  1F1  3F0  3B0  3F1  3B1  .    1B0  1B1  .\n");
}

TEST_CASE("with one chunk it is 1F1B") {
  for (int S = 1; S <= 6; ++S)
    for (int M = 1; M <= 3 * S; ++M)
      if (interleaved{1}.admits(S, M))
        CHECK(describe(timetable(interleaved{1}, S, M)) == describe(timetable(one_f_one_b{}, S, M)));
}

TEST_CASE("idle time is that of 1F1B divided by the number of chunks, with either warm-up") {
  for (int V = 1; V <= 4; ++V)
    for (int K = 1; K <= 5; ++K)
      for (int M = 1; M <= 4 * K; ++M) {
        if (!interleaved{V}.admits(V * K, M)) continue;
        if (M >= K) CHECK(interleaved{V}.makespan(V * K, M, 2, 3) == V * M * (2 + 3) + (K - 1) * (2 + 3));
        for (const auto& schedule : {interleaved{V}, longest(V)})
          CHECK(timetable(schedule, V * K, M).simulate(2, 3, 0) == schedule.makespan(V * K, M, 2, 3));
      }
}

TEST_CASE("a worker holds as many chunks as its warm-up has forwards") {
  for (int V = 1; V <= 4; ++V)
    for (int K = 1; K <= 6; ++K)
      for (int M = 2 * K; M <= 4 * K; M += K)
        for (int w = 0; w < K; ++w) {
          const int fewest = (V - 1) * K + K - w, max = (V - 1) * K + 2 * (K - 1 - w) + 1;
          CHECK(warmup_and_peak(interleaved{V}, V * K, M, w) == std::pair(fewest, fewest));
          CHECK(warmup_and_peak(longest(V), V * K, M, w) == std::pair(max, max));
        }
}

TEST_CASE("the longest warm-up is faster if transfers have a latency, by the figures of the header") {
  CHECK(step(longest(2), 4, 16, 0) == step(interleaved{2}, 4, 16, 0));
  const auto gain = [](int K, int M, std::int64_t latency) {
    return static_cast<double>(step(interleaved{2}, K, M, latency)) /
           static_cast<double>(step(longest(2), K, M, latency));
  };
  CHECK(gain(4, 16, 1) == doctest::Approx(1.019).epsilon(0.001));
  CHECK(gain(4, 16, 2) == doctest::Approx(1.038).epsilon(0.001));
  CHECK(gain(4, 16, 5) == doctest::Approx(1.092).epsilon(0.001));
  CHECK(gain(8, 32, 2) == doctest::Approx(1.044).epsilon(0.001));
  CHECK(gain(8, 32, 5) == doctest::Approx(1.109).epsilon(0.001));
  CHECK(warmup_and_peak(interleaved{2}, 8, 16, 0).second == 8);
  CHECK(warmup_and_peak(longest(2), 8, 16, 0).second == 11);
}

TEST_CASE("the error of a number of micro-batches names the nearest that is admitted") {
  CHECK_THROWS_WITH_AS(
      timetable(interleaved{2}, 8, 9),
      doctest::Contains("interleaved does not admit 8 stages and 9 micro-batches; choose 6 or 10 stages, "
                        "or 8 or 10 micro-batches, or another schedule"),
      error);
}
