#include <gpipe/plan/cut/memory_limited_cut.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <gpipe/plan/cut/choose_cut.hpp>

#include "support/random_network.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using nets::random_network;

namespace {

/// The best of all cuts under a limit by trying them all, and the smallest limit that one obeys.
struct tried {
  std::vector<std::int64_t> bytes, objectives;

  std::int64_t best(std::int64_t limit) const {
    std::int64_t min = no_memory_limit;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] <= limit) min = (std::min)(min, objectives[i]);
    return min;
  }
};

template <class Schedule>
struct instance {
  const network& net;
  plan_options o;
  const Schedule schedule;
  stage_costs costs;
  nets::stage_limits limits;

  /// The smallest limit that the cut obeys.
  std::int64_t bytes(const std::vector<int>& first) const {
    std::int64_t max = 0;
    for (int s = 0; s < o.stages; ++s) {
      const stage_view stage(net, {first.data(), o.stages}, s);
      max = (std::max)(max, limits.least(s, memory_of(stage, requirements_of(schedule, o, s)).total()));
    }
    return max;
  }
  std::int64_t objective(const std::vector<int>& first) const {
    return detail::with_problem(net, o, schedule, costs,
                                [&](const partition_problem& p) { return objective_of(p, first.data()); });
  }
  tried all() const {
    tried found;
    nets::each_cut(net.layer_count, o.stages, [&](const std::vector<int>& first) {
      found.bytes.push_back(bytes(first));
      found.objectives.push_back(objective(first));
    });
    return found;
  }
};

struct tally {
  int limits = 0, refused = 0, bound = 0, bound_by_device = 0;
};

/// The cut under every limit at which the best may change, and just below.
template <class Schedule>
void agrees(instance<Schedule> it, std::mt19937& random, tally& seen) {
  const tried all = it.all();
  const std::int64_t min = *std::min_element(all.bytes.begin(), all.bytes.end());
  std::vector<std::int64_t> limits{min, min - 1};
  for (int i = 0; i < 3; ++i) limits.push_back(all.bytes[random() % all.bytes.size()]);
  for (const std::int64_t limit : limits) {
    CAPTURE(limit);
    it.limits.set(it.o, limit);
    std::vector<int> first(static_cast<std::size_t>(it.o.stages) + 1);
    const bool fits = choose_cut(it.net, it.o, it.schedule, it.costs, first.data());
    REQUIRE(fits == (limit >= min));
    ++seen.limits;
    if (!fits) {
      REQUIRE(it.objective(first) == all.best(no_memory_limit));
      const memory_shortage found = find_shortage(it.net, it.o, it.schedule, it.costs);
      REQUIRE(found.bytes == min - limit);
      REQUIRE(it.o.limit_of(found.stage) != no_memory_limit);
      if (!it.limits.each()) REQUIRE(min_memory_limit(it.net, it.o, it.schedule, it.costs) == min);
      ++seen.refused;
      continue;
    }
    REQUIRE(it.bytes(first) <= limit);
    REQUIRE(it.objective(first) == all.best(limit));
    const bool bound = all.best(limit) > all.best(no_memory_limit);
    (it.limits.each() ? seen.bound_by_device : seen.bound) += bound;
  }
}

}  // namespace

TEST_CASE("under every memory limit, of all stages or of each, the cut is the best of all that obey it") {
  std::mt19937 random(20190716);
  tally seen;
  for (int i = 0; i < 4000; ++i) {
    CAPTURE(i);
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    const int layers = 4 + below(7);
    const random_network drawn(random, layers, below(4) > 0);
    plan_options o{.stages = 1 + below(layers < 6 ? layers : 6),
                   .micro_batches = 1 + below(6),
                   .micro_batch_size = 1,
                   .recompute = below(2) == 0 ? recompute_mode::never : recompute_mode::except_last};
    o.cost_transfers = below(4) == 0;
    const bool each = below(4) == 0;
    std::vector<layer_cost> costs;
    for (int l = 0; l < (each ? o.stages : 1) * layers; ++l) costs.push_back({below(9), below(9), below(9)});
    const stage_costs of{costs.data(), layers, each};
    const nets::stage_limits limits(random, o.stages, below(2) == 0);
    if (below(2) == 0) agrees(instance<fill_drain>{drawn.net, o, {}, of, limits}, random, seen);
    else agrees(instance<one_f_one_b>{drawn.net, o, {}, of, limits}, random, seen);
  }
  CHECK(seen.limits == 20'000);
  CHECK(seen.refused == 4000);
  CHECK(seen.bound > 1500);
  CHECK(seen.bound_by_device > 1500);
}

// The largest forward and the largest backward of a cut lie in different stages: a partial cut with the smaller
// objective so far may end worse.
TEST_CASE("a partial cut with a longer backward does not replace one with a shorter, whatever else it saves") {
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    const int layers = 6 + below(4);
    const random_network drawn(random, layers, false);
    plan_options o{.stages = 4 + below(2),
                   .micro_batches = 2 + below(8),
                   .micro_batch_size = 1,
                   .recompute = recompute_mode::never};
    std::vector<layer_cost> costs;
    const auto often_nothing = [&] { return below(3) == 0 ? 0 : below(30); };
    for (int l = 0; l < layers; ++l) {
      const int backward = often_nothing();
      costs.push_back({often_nothing(), backward, 0});
    }
    instance<fill_drain> it{drawn.net, o, {}, {costs.data(), layers, false}, {random, o.stages, false}};
    const tried all = it.all();
    it.o.memory_limit = all.bytes[random() % all.bytes.size()];
    std::vector<int> first(static_cast<std::size_t>(o.stages) + 1);
    REQUIRE(choose_cut(it.net, it.o, it.schedule, it.costs, first.data()));
    REQUIRE(it.objective(first) == all.best(it.o.memory_limit));
  }
}
