#include <gpipe/plan/partition/lower_bound.hpp>

#include <gpipe/plan/partition/partition.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

std::int64_t draw(std::mt19937& random, int limit) { return static_cast<std::int64_t>(random()) % limit; }

/// The times of one stage of a cut: forward, and the two parts of backward.
struct times {
  std::int64_t forward = 0, chain = 0, later = 0;
};

/// The duration of a step whose devices run ready work in random order. If `early`, the part `later` of backward may
/// run before the gradient has arrived, like a second forward; else after its chain, like the parameters' gradients.
std::int64_t random_step(const std::vector<times>& stages, int M, bool early, std::mt19937& random) {
  const int S = static_cast<int>(stages.size());
  struct item {
    int kind, s, m;
  };
  std::vector<item> todo;
  for (int s = 0; s < S; ++s)
    for (int m = 0; m < M; ++m)
      for (int kind = 0; kind < 3; ++kind) todo.push_back({kind, s, m});
  std::vector<std::int64_t> end(static_cast<std::size_t>(3 * S * M), -1), free(static_cast<std::size_t>(S), 0);
  const auto at = [&](int kind, int s, int m) -> std::int64_t& {
    return end[static_cast<std::size_t>((kind * S + s) * M + m)];
  };
  std::int64_t makespan = 0;
  while (!todo.empty()) {
    const std::size_t pick = random() % todo.size();
    const auto [kind, s, m] = todo[pick];
    const times& t = stages[static_cast<std::size_t>(s)];
    std::vector<std::int64_t> needs;  // 0 forward, 1 chain, 2 later
    if (kind == 0 && s > 0) needs.push_back(at(0, s - 1, m));
    if (kind > 0) needs.push_back(at(0, s, m));
    if (kind == 1 && s + 1 < S) needs.push_back(at(1, s + 1, m));
    if (kind == 1 && early) needs.push_back(at(2, s, m));
    if (kind == 2 && !early) needs.push_back(at(1, s, m));
    if (std::find(needs.begin(), needs.end(), -1) != needs.end()) continue;
    std::int64_t& now = free[static_cast<std::size_t>(s)];
    for (const std::int64_t done : needs) now = (std::max)(now, done);
    now += kind == 0 ? t.forward : kind == 1 ? t.chain : t.later;
    at(kind, s, m) = now;
    makespan = (std::max)(makespan, now);
    todo.erase(todo.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  return makespan;
}

/// Calls `visit(first)` for every cut.
template <class Visit>
void each_cut(int layers, int stages, const Visit& visit) {
  for (unsigned mask = 0; mask < 1u << (layers - 1); ++mask) {
    std::vector<int> first{0};
    for (int l = 0; l + 1 < layers; ++l)
      if (mask >> l & 1u) first.push_back(l + 1);
    first.push_back(layers);
    if (static_cast<int>(first.size()) == stages + 1) visit(first);
  }
}

constexpr pass_cost equal[] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};
constexpr partition_problem four{.layers = 4, .stages = 4, .micro_batches = 8, .costs = equal};
static_assert(makespan_lower_bound(four) == 33);  // no schedule beats fill-drain's 3 (M + S - 1) for this problem
constexpr partition_problem one{.layers = 4, .stages = 1, .micro_batches = 8, .costs = equal};
static_assert(makespan_lower_bound(one) == 96);

}  // namespace

TEST_CASE("on equal devices the bound is the larger of its two terms at the best cut") {
  std::mt19937 random(11);
  for (int i = 0; i < 400; ++i) {
    const int L = 1 + static_cast<int>(random() % 8), S = 1 + static_cast<int>(random() % unsigned(L));
    const int M = 1 + static_cast<int>(random() % 9);
    std::vector<pass_cost> costs;
    for (int l = 0; l < L; ++l) costs.push_back({draw(random, 20), draw(random, 30)});
    const partition_problem p{.layers = L, .stages = S, .micro_batches = M, .costs = costs.data()};
    std::int64_t min = detail::unlimited, makespan = detail::unlimited;
    each_cut(L, S, [&](const std::vector<int>& first) {
      std::int64_t all = 0, before = 0, bound = 0;
      for (const pass_cost& cost : costs) all += cost.forward + cost.backward;
      for (int s = 0; s < S; ++s) {
        pass_cost held;
        for (int l = first[std::size_t(s)]; l < first[std::size_t(s) + 1]; ++l) {
          held.forward += costs[std::size_t(l)].forward;
          held.backward += costs[std::size_t(l)].backward;
        }
        bound = (std::max)({bound, before + M * (held.forward + held.backward),
                            all + (M - 1) * (std::max)(held.forward, held.backward)});
        before += held.forward + held.backward;
      }
      min = (std::min)(min, bound);
      makespan = (std::min)(makespan, objective_of(p, first.data()));
    });
    CHECK(makespan_lower_bound(p) == min);
    CHECK(min <= makespan);
  }
}

TEST_CASE("no step of any cut in any order beats the bound, with unequal devices and backward in parts, too") {
  std::mt19937 random(12);
  for (int i = 0; i < 600; ++i) {
    const int L = 2 + static_cast<int>(random() % 5), S = 1 + static_cast<int>(random() % unsigned(L));
    const int M = 1 + static_cast<int>(random() % 4), kinds = 1 + static_cast<int>(random() % 2);
    const bool early = i % 3 == 1, split = i % 3 == 2;
    std::vector<times> layers;
    std::vector<pass_cost> costs;
    std::vector<int> kind_of;
    for (int l = 0; l < kinds * L; ++l) {
      layers.push_back({draw(random, 9), draw(random, 9), early || split ? draw(random, 9) : 0});
      costs.push_back({layers.back().forward, layers.back().chain + layers.back().later});
    }
    for (int s = 0; s < S; ++s) kind_of.push_back(static_cast<int>(random() % unsigned(kinds)));
    const partition_problem p{
        .layers = L, .stages = S, .micro_batches = M, .costs = costs.data(), .kinds = kinds, .kind_of = kind_of.data()};
    const std::int64_t bound = makespan_lower_bound(p, [&](const partition_problem&, int kind, int layer) {
      const times& t = layers[static_cast<std::size_t>(kind * L + layer)];
      return layer_step{t.forward, split ? 0 : t.chain, M * (t.forward + t.chain + t.later)};
    });
    if (!early && !split) CHECK(bound == makespan_lower_bound(p));
    each_cut(L, S, [&](const std::vector<int>& first) {
      std::vector<times> stages(static_cast<std::size_t>(S));
      for (int s = 0; s < S; ++s)
        for (int l = first[std::size_t(s)]; l < first[std::size_t(s) + 1]; ++l) {
          const times& t = layers[static_cast<std::size_t>(kind_of[std::size_t(s)] * L + l)];
          times& held = stages[std::size_t(s)];
          held = {held.forward + t.forward, held.chain + t.chain, held.later + t.later};
        }
      for (int trial = 0; trial < 3; ++trial) CHECK(random_step(stages, M, early, random) >= bound);
    });
  }
}

TEST_CASE("impossible steps are rejected") {
  const auto half = [](const partition_problem& p, int kind, int layer) {
    return layer_step{p.costs[kind * p.layers + layer].forward, 2, 2};
  };
  CHECK_THROWS_WITH_AS(makespan_lower_bound(four, half), doctest::Contains("work in a step is 2"), error);
  const pass_cost negative[] = {{1, -2}};
  CHECK_THROWS_WITH_AS(makespan_lower_bound({.layers = 1, .costs = negative}), doctest::Contains("negative"), error);
  const pass_cost huge[] = {{detail::unlimited / 4, detail::unlimited / 4}};
  CHECK_THROWS_WITH_AS(makespan_lower_bound({.layers = 1, .micro_batches = 3, .costs = huge}),
                       doctest::Contains("exceed 64 bits"), error);
}
