#include <gpipe/plan/cut/stage_costs.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 8>, linear<8>, relu> {};
constexpr device_spec each[] = {p100, v100_16gb};

}  // namespace

TEST_CASE("costs are those of one device, or of each stage's device") {
  plan_options o{.stages = 2, .micro_batch_size = 4, .device = p100};
  layer_cost costs[4];
  REQUIRE(cost_count(network_of<net>, o) == 2);
  const stage_costs one = fill_costs(network_of<net>, o, costs);
  CHECK(one.kinds(2) == 1);
  CHECK(one.of(1) == one.of(0));
  CHECK(one.of(0)[0] == layer_cost_of(network_of<net>.type_of(0), 4, p100));
  o.devices = each;
  o.device_count = 2;
  REQUIRE(cost_count(network_of<net>, o) == 4);
  const stage_costs two = fill_costs(network_of<net>, o, costs);
  CHECK(two.kinds(2) == 2);
  for (int s = 0; s < 2; ++s)
    for (int l = 0; l < 2; ++l) CHECK(two.of(s)[l] == layer_cost_of(network_of<net>.type_of(l), 4, each[s]));
}
