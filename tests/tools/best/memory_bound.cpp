// optimize: yes

#include <gpipe/tools/best/memory_bound.hpp>

#include <doctest/doctest.h>

#include <random>

#include <gpipe/plan/cut/step_time_bound.hpp>

#include "support/random_pipeline.hpp"

using namespace gpipe;

TEST_CASE("no cut that obeys the limits has a shorter step, and none obeys them where the bound says so") {
  std::mt19937 random(40);
  int none = 0, proven = 0, raised = 0;
  for (int i = 0; i < 12'000; ++i) {
    nets::random_pipeline drawn(random, true);
    const stage_costs costs = drawn.costs();
    const std::int64_t bound = detail::memory_bound(drawn.drawn.net, drawn.options, costs).step(),
                       least = drawn.shortest_step(costs);
    CAPTURE(i);
    CHECK(bound <= least);
    none += least == detail::unlimited;
    proven += bound == detail::unlimited;
    raised += bound != detail::unlimited &&
              bound > detail::lower_bound_of(drawn.drawn.net, drawn.options, drawn.options.chosen_schedule(), costs);
  }
  MESSAGE(none, " of 12000 do not fit, for ", proven, " it is proven; ", raised,
          " bounds are above that without limits");
  CHECK(proven > none / 4);
  CHECK(raised > 600);
}

TEST_CASE("one stage of 1F1B runs the same again for each micro-batch, and more with less memory") {
  std::mt19937 random(42);
  nets::random_network drawn(random, 24, false);
  for (detail::value& v : drawn.values) v.part.size = 1024;
  for (detail::layer_type& row : drawn.rows) {
    row.keeps = {.input = true, .output = false};
    row.parameter_count = 0;
    row.cost = {100'000'000, 100'000'000, 100'000'000, 0};
  }
  const auto again = [&](int M, std::int64_t limit) {
    plan_options o{.micro_batches = M, .micro_batch_size = 1, .schedule = schedule_kind::one_f_one_b};
    std::vector<layer_cost> all(static_cast<std::size_t>(detail::cost_count(drawn.net, o)));
    const stage_costs costs = detail::fill_costs(drawn.net, o, all.data());
    const std::int64_t free = detail::memory_bound(drawn.net, o, costs).step();
    o.device.memory_limit = limit;
    return static_cast<double>(detail::memory_bound(drawn.net, o, costs).step() - free) /
           (1e-3 * static_cast<double>(free));
  };
  const std::int64_t kept = 23 * 4096;  // of a micro-batch: all values that a layer writes and another reads
  CHECK(again(1, kept) == doctest::Approx(0).epsilon(0.01));
  for (const int M : {1, 2, 5}) {
    // Forward is half of a layer's time without parameters. A half or three quarters of what is kept is written again.
    CHECK(again(M, kept / 2) == doctest::Approx(1000.0 / 2 * 23 / 24 / 2).epsilon(0.005));
    CHECK(again(M, kept / 4) == doctest::Approx(1000.0 / 2 * 23 / 24 * 3 / 4).epsilon(0.005));
  }
}
