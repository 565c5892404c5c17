#include <gpipe/model/transformer.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

#include <gpipe/core/units.hpp>
#include <gpipe/plan/memory/layout.hpp>

using namespace gpipe;

namespace {

// The paper's table 1: (12 d^2 + 13 d) L + 2 V d + V at d = 2048, V = 32000.
static_assert(network_of<transformer<3>>.parameters() == 282'178'816);
static_assert(network_of<transformer<13>>.parameters() == 785'761'536);
static_assert(network_of<transformer<103>>.parameters() == 5'318'006'016);
static_assert(network_of<transformer<415>>.parameters() == 21'029'786'880);
static_assert(network_of<transformer<1663>>.parameters() == 83'876'910'336);

template <std::int64_t L, int D, int V>
constexpr bool counts = network_of<transformer<L, 8, D, 4 * D, 2, V>>.parameters() ==
                        (12LL * D * D + 13 * D) * L + 2LL * V* D + V;
static_assert(counts<1, 4, 3> && counts<7, 10, 100> && counts<100, 64, 1>);

// Options by name give the same layers as sizes by their order; slices of the head are layers more.
static_assert(std::is_same_v<transformer_with<3>::items, transformer<3>::items>);
static_assert(std::is_same_v<
              transformer_with<
                  1, transformer_options{.tokens = 8, .width = 4, .hidden = 16, .heads = 2, .vocabulary = 3}>::items,
              transformer<1, 8, 4, 16, 2, 3>::items>);
constexpr transformer_options in_slices{
    .tokens = 8, .width = 4, .hidden = 16, .heads = 2, .vocabulary = 7, .head_slices = 3};
static_assert(layers_of<transformer_with<1, in_slices>> == 1 + 6 + 3 + 1);
static_assert(network_of<transformer_with<1, in_slices>>.parameters() ==
              network_of<transformer<1, 8, 4, 16, 2, 7>>.parameters());

// For any number of blocks, the types are the layers of one block, and the first and the last layer.
constexpr const network& deepest = network_of<transformer<1663>>;
static_assert(deepest.type_count == 8 && deepest.layer_count == 6 * 1663 + 2);
static_assert(deepest.loss_layer() == deepest.layer_count - 1);
static_assert(deepest.field_count == 2 && deepest.fields[0].size == 1024 && deepest.fields[0].below == 32'000);

// int32 tokens have no gradient; all values after the embedding have one.
static_assert(deepest.values[0].part.type == dtype::int32 && !deepest.values[0].gradient);
static_assert(deepest.values[1].part.bytes(1) == 8_MiB && deepest.values[1].gradient);

// The bytes per sample that a block keeps for backward: inputs of three layers, [q k v] and the heads, one of width
// Hidden. That of the first layer is in the stash. Beside them are, once a stage, four gradients that delayed parameter
// parts read, one of width Hidden that they read, too, and attention's workspace: gradients of [q k v] and the heads.
constexpr int one_block[] = {0, 1, 7, 8};
constexpr stage_memory block = memory_of(stage_view(network_of<transformer<1>>, {one_block, 3}, 1), {1, 1, 1, 1, 1});
static_assert(block.of(memory_kind::kept) >= 11 * 8_MiB && block.of(memory_kind::kept) < 11.1 * 8_MiB);
static_assert(block.of(memory_kind::transient) <= 12 * 8_MiB);
// 12 bytes per parameter: value, gradient and one moment.
static_assert(block.of(memory_kind::parameters) + block.of(memory_kind::gradients) + block.of(memory_kind::moments) ==
              12 * (12LL * 2048 * 2048 + 13 * 2048));
// Every weight, packed for forward and for backward.
static_assert(block.of(memory_kind::derived) == 2 * 4 * (12LL * 2048 * 2048));

}  // namespace

TEST_CASE("a Transformer's operations are six per weight and token, plus those of attention") {
  std::int64_t sum = 0;
  const network& net = network_of<transformer<13>>;
  for (int l = 0; l < net.layer_count; ++l) {
    const work& w = net.type_of(l).cost;
    sum += w.forward + w.backward_input + w.backward_parameters;
  }
  const double weights = 13 * 12.0 * 2048 * 2048 + 32'000 * 2048.0;
  const double attention = 13 * 7.0 * 2048 * 1024 * 1024;  // half of all pairs, 2 + 5 products
  CHECK(static_cast<double>(sum) > 6 * 1024 * weights + attention);
  CHECK(static_cast<double>(sum) < 1.02 * (6 * 1024 * weights + attention));
}
