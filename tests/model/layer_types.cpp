#include <gpipe/model/layer_types.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

using eight = tensor<float, 8>;
using halves = bundle<tensor<float, 4>, tensor<float, 4>>;

struct body : sequence<halve, repeat<2, cross>, join> {};
struct net : model<input<float, 8>, stash<"x">, repeat<3, body>, pop<"x">, add, residual<relu>, relu> {};

// One bound layer for each type, in the order of the network's types, for any repetitions.
using expected = list<bound<halve, eight>, bound<cross, halves>, bound<join, halves>, bound<add, bundle<eight, eight>>,
                      bound<relu, eight>, bound<add, bundle<eight, eight>>, bound<relu, eight>>;
static_assert(std::is_same_v<layer_type_list<net>, expected>);
static_assert(std::is_same_v<bound_layer_type<net, 2>, bound<join, halves>>);

}  // namespace

TEST_CASE("the bound layers match the network's types") {
  CHECK(network_of<net>.type_count == 7);
  CHECK(network_of<net>.types[2].name == bound<join, halves>::name);
  CHECK(network_of<net>.types[4].name == "relu");
}
