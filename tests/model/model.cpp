#include <gpipe/model/model.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

struct net : model<input<double, 8>, halve, repeat<400, repeat<2, cross>>, join, passing_loss> {};
static_assert(layers_of<net> == 803 && network_of<net>.type_count == 4);
static_assert(network_of<net>.type == dtype::float64);
static_assert(network_of<net>.parameters() == 3200);
static_assert(network_of<net>.loss_layer() == 802);
static_assert(std::is_same_v<net::entering, tensor<double, 8>>);

struct without_loss : model<input<float, 8>, relu> {};
static_assert(network_of<without_loss>.loss_layer() == -1 && layers_of<without_loss> == 1);

// A custom block is a name for its items.
struct block : sequence<halve, cross, join> {};
struct of_blocks : model<input<float, 8>, block, block> {};
struct of_items : model<input<float, 8>, halve, cross, join, halve, cross, join> {};
static_assert(layers_of<of_blocks> == layers_of<of_items>);

}  // namespace

TEST_CASE("the last value of a long model has no reader") {
  const network& n = network_of<net>;
  CHECK(n.values[n.value_count - 1].readers == 0);
  CHECK(n.values[n.value_count - 1].writer == 802);
  CHECK(n.type_of(400).name == "laws::cross");
}
