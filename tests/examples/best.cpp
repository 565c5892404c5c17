#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/tools/best/find_best.hpp>

#include "../examples/plan/best/table_network.hpp"

using namespace gpipe;
using example::table_layer;
using example::table_network;

namespace {

const std::vector<table_layer> table{{"in", 3'000, 5'000, 8'192, 4'096, 1'024},
                                     {"middle", 1'000, 3'000, 0, 512, 2'048},
                                     {"out", 2'000, 4'000, 4'096, 256, 0}};

}  // namespace

TEST_CASE("a table as a network has its costs, and backward in halves") {
  const table_network made(table);
  const network net = made.net();
  layer_cost costs[3];
  layer_costs(net, 1, this_cpu, made.profile(), costs);
  CHECK(costs[0] == layer_cost{3'000'000, 2'500'000, 2'500'000});
  CHECK(costs[1] == layer_cost{1'000'000, 1'500'000, 1'500'000});
  CHECK(costs[2] == layer_cost{2'000'000, 2'000'000, 2'000'000});
  CHECK(net.type_of(1).name == "middle");
}

TEST_CASE("a table's stage has its parameters, and what it keeps for each micro-batch in flight") {
  const table_network made(table);
  const network net = made.net();
  plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 1, .optimizer_moments = 0};
  o.schedule = schedule_kind::one_f_one_b;
  o.profile = made.profile();
  const step_plan p = make_plan(net, o, {1});
  const auto of = [&](int stage, memory_kind kind) { return p.memory(stage).of(kind); };
  CHECK(of(0, memory_kind::parameters) + of(0, memory_kind::gradients) == 8'192);
  CHECK(of(1, memory_kind::parameters) + of(1, memory_kind::gradients) == 4'096);
  CHECK(of(0, memory_kind::kept) >= 2 * 4'096);
  CHECK(of(1, memory_kind::kept) >= 512 + 256);
  CHECK(of(1, memory_kind::stash) >= 1'024);
}

TEST_CASE("the best plan of a table is that of its layers") {
  const table_network made(table);
  const network net = made.net();
  plan_options o{.optimizer_moments = 0};
  o.profile = made.profile();
  const best_plan alone = find_best(net, {.devices = 1, .batch = 8, .micro_batch_size = 1}, o);
  CHECK(alone.step >= 8 * std::int64_t{18'000'000});
  CHECK(alone.gap() == 0);
  const best_plan three = find_best(net, {.devices = 3, .batch = 8, .micro_batch_size = 1}, o);
  CHECK(three.step < alone.step / 2);
}
