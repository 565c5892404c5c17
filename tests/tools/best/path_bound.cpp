// optimize: yes

#include <gpipe/tools/best/path_bound.hpp>

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/stages/cut.hpp>

#include "support/random_pipeline.hpp"

using namespace gpipe;

namespace {

std::int64_t bound_of(const plan_options& o, const stage_costs& costs, int rounds) {
  return detail::path_bound(o, costs).step(detail::unlimited, rounds);
}

}  // namespace

TEST_CASE("no cut has a shorter step, and most bounds are above those that do not know the table") {
  std::mt19937 random(41);
  int chained = 0, raised = 0;
  double shares = 0;
  for (int i = 0; i < 1'500; ++i) {
    nets::random_pipeline drawn(random, false);
    if (drawn.options.stages > 1 && detail::chained_from(drawn.drawn.net).begin(true) > 1) continue;
    const stage_costs costs = drawn.costs();
    const std::int64_t bound = bound_of(drawn.options, costs, 100), least = drawn.shortest_step(costs);
    CAPTURE(i);
    CHECK(bound <= least);
    ++chained;
    raised += bound > detail::lower_bound_of(drawn.drawn.net, drawn.options, drawn.options.chosen_schedule(), costs);
    shares += least == 0 ? 1 : static_cast<double>(bound) / static_cast<double>(least);
  }
  MESSAGE("of ", chained, " bounds ", raised, " are higher; the mean is ", shares / chained, " of the shortest step");
  CHECK(chained > 700);
  CHECK(raised > chained / 5);
  CHECK(shares / chained > 0.9);
}

TEST_CASE("one stage is bounded by its work, and a few equal layers of equal stages by the step itself") {
  const std::vector<layer_cost> layers(8, {10'000, 10'000, 10'000});
  const stage_costs costs{layers.data(), 8, false};
  CHECK(bound_of({.micro_batches = 3}, costs, 1) == doctest::Approx(3 * 8 * 30'000));
  // Eight stages of a layer: no other cut exists, and fill-drain takes (M + S - 1) (f + b).
  for (const int M : {1, 4, 9})
    CHECK(bound_of({.stages = 8, .micro_batches = M, .schedule = schedule_kind::fill_drain}, costs, 1) ==
          doctest::Approx((M + 7) * 30'000));
}
