#include <gpipe/model/in_bf16.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer.hpp>
#include <gpipe/model/gpt2.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 12>, dropout<10>, linear<8>, repeat<2, residual<layer_norm, linear<8>, gelu>>,
                   linear<5>, softmax_cross_entropy> {};

constexpr const network &narrow = network_of<in_bf16<net>>, &wide = network_of<net>;
static_assert(precision_of(narrow) == precision::bf16 && precision_of(wide) == precision::float32);

/// Bytes of a linear layer's rounded bias, which is padded to a panel: it has no copy in float32.
constexpr std::size_t rounded_bias = sizeof(bf16) * packed_size(1, 8);

// Every edge is bf16, every parameter float32 under the same name; fields keep their types.
constexpr bool halved() {
  bool holds = narrow.layer_count == wide.layer_count && narrow.value_count == wide.value_count;
  for (int v = 0; v < wide.value_count; ++v)
    holds = holds && narrow.values[v].part.type == dtype::bf16 && wide.values[v].part.type == dtype::float32 &&
            narrow.values[v].part.size == wide.values[v].part.size &&
            narrow.values[v].gradient == wide.values[v].gradient;
  for (int l = 0; l < wide.layer_count; ++l)
    holds = holds && narrow.type_of(l).name == wide.type_of(l).name && narrow.type_of(l).type == dtype::float32 &&
            narrow.type_of(l).computes == dtype::bf16 &&
            narrow.type_of(l).parameter_bytes() == wide.type_of(l).parameter_bytes() &&
            2 * (narrow.type_of(l).derived_bytes() - (wide.type_of(l).derived_bytes() > 0 ? rounded_bias : 0)) ==
                wide.type_of(l).derived_bytes() &&
            narrow.type_of(l).cost.forward == wide.type_of(l).cost.forward;
  for (int f = 0; f < wide.field_count; ++f) holds = holds && narrow.fields[f].type == wide.fields[f].type;
  return holds && narrow.type == dtype::float32;
}
static_assert(halved());

// A model of tokens says itself what it is in bf16.
constexpr const network &tokens = network_of<in_bf16<gpt2<1, 8, 2, 4, 16>>>, &plain = network_of<gpt2<1, 8, 2, 4, 16>>;
static_assert(precision_of(tokens) == precision::bf16 && precision_of(plain) == precision::float32);
static_assert(tokens.parameters() == plain.parameters() && tokens.type == dtype::float32);
static_assert(tokens.values[0].part.type == dtype::int32 && tokens.values[1].part.type == dtype::bf16);
static_assert(std::is_same_v<in_bf16<in_bf16<gpt2<1, 8, 2, 4, 16>>>::items, in_bf16<gpt2<1, 8, 2, 4, 16>>::items>);

// A second in_bf16 changes nothing, and other types than float32 stay.
static_assert(std::is_same_v<in_bf16<in_bf16<net>>::entering, tensor<bf16, 12>>);

}  // namespace

TEST_CASE("a loss computes in float") {
  const layer_type& loss = narrow.type_of(narrow.loss_layer());
  REQUIRE(loss.extra_count == 1);
  CHECK(loss.extras[0].type == dtype::float32);
  CHECK(loss.fields[1].type == dtype::float32);
}
