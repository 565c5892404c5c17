#pragma once

// Random pipelines, and the shortest step of all their cuts, with which bounds are compared.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/tools/best/plan_space.hpp>

#include "support/random_network.hpp"

namespace nets {

/// A network with random costs, and random options for it. `limits`: with a memory limit that fits few cuts, or none.
struct random_pipeline {
  random_network drawn;
  plan_options options{};
  std::vector<layer_cost> costs_of_layers{};

  random_pipeline(std::mt19937& random, bool limits) : drawn(random, 1 + below(random, 7), below(random, 2) == 0) {
    for (layer_type& row : drawn.rows) {
      row.cost = {1'000LL * below(random, 200), 1'000LL * below(random, 200), 1'000LL * below(random, 200),
                  below(random, 4'000)};
      row.cost.kind = below(random, 2) == 0 ? work_kind::product : work_kind::other;
    }
    plan_options& o = options;
    do {
      o.schedule =
          searched_kinds[static_cast<std::size_t>(below(random, static_cast<int>(searched_kinds.size())))].kind;
      o.chunks = 2 + below(random, 3);
      o.stages = (1 + below(random, 3)) * stages_per_worker(o.schedule, o.chunks);
      o.micro_batches = 1 + below(random, 6);
    } while (o.stages > drawn.net.layer_count || !o.chosen_schedule().admits(o.stages, o.micro_batches));
    o.micro_batch_size = 1 + below(random, 4);
    o.optimizer_moments = below(random, 3);
    o.replicas = 1 + below(random, 2);
    if (below(random, 3) == 0) o.shard = below(random, 2) == 0 ? shard::optimizer_state : shard::gradients;
    if (below(random, 4) == 0) o.recompute = static_cast<recompute_mode>(below(random, 4));
    if (limits) o.device.memory_limit = 2'000 + below(random, below(random, 2) == 0 ? 20'000 : 120'000);
  }

  stage_costs costs() {
    costs_of_layers.resize(static_cast<std::size_t>(cost_count(drawn.net, options)));
    return fill_costs(drawn.net, options, costs_of_layers.data());
  }
  /// `unlimited`: no cut fits.
  std::int64_t shortest_step(const stage_costs& costs) const {
    const cut_simulator simulator(drawn.net, options, costs);
    std::int64_t least = unlimited;
    each_cut(drawn.net.layer_count, options.stages,
             [&](const std::vector<int>& first) { least = std::min(least, simulator.step_of(first.data())); });
    return least;
  }

 private:
  static int below(std::mt19937& random, int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  }
};

}  // namespace nets
