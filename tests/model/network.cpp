#include <gpipe/model/network.hpp>

#include <doctest/doctest.h>

#include <string_view>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

/// Its output has the type of its first input.
struct narrow {
  template <class In>
  struct on;
  template <class First, class Second>
  struct on<bundle<First, Second>> {
    using output = First;
  };
};

//   layer   0 lookup  1 peak  2 scale  3 relu  4 add  5 halve  6 cross  7 join  8 passing_loss
//   reads   0         1       2 3      4       5 1    6        7 8      9 10    11
//   writes  1         2 3     4        5       6      7 8      9 10     11      12
struct net : model<input<std::int32_t, 2>, lookup<float, 5, 3>, stash<"x">, peak, scale, relu, pop<"x">, add, halve,
                   cross, join, passing_loss> {};
constexpr const network& n = network_of<net>;

static_assert(n.layer_count == 9 && n.type_count == 9 && n.entering == 1 && n.value_count == 13 && n.read_count == 13);
static_assert(n.type == dtype::float32);

template <int... V>
constexpr bool reads_of(int layer) {
  const int expected[] = {V...};
  if (n.layers[layer].reads != sizeof...(V)) return false;
  for (int i = 0; i < static_cast<int>(sizeof...(V)); ++i)
    if (n.reads_value(layer, i) != expected[i]) return false;
  return true;
}
template <int... L>
constexpr bool readers_of(int v) {
  const int expected[] = {L..., -1};
  if (n.values[v].readers != sizeof...(L)) return false;
  for (int i = 0; i < static_cast<int>(sizeof...(L)); ++i)
    if (n.reader(v, i) != expected[i]) return false;
  return true;
}
static_assert(reads_of<0>(0) && reads_of<1>(1) && reads_of<2, 3>(2) && reads_of<4>(3) && reads_of<5, 1>(4));
static_assert(reads_of<6>(5) && reads_of<7, 8>(6) && reads_of<9, 10>(7) && reads_of<11>(8));
static_assert(readers_of<0>(0) && readers_of<1, 4>(1) && readers_of<2>(3) && readers_of<>(12));

// `only` goes on from a stash or from a field: the layer behind it reads nothing else, and nothing is copied.
struct back : model<input<float, 4>, relu, stash<"a">, relu, stash<"b">, only<pop<"a">>, relu, pop<"b">, add> {};
static_assert(network_of<back>.layer_count == 4 && network_of<back>.value_count == 5);
static_assert(network_of<back>.layers[2].reads == 1 && network_of<back>.reads_value(2, 0) == 1);
static_assert(network_of<back>.reads_value(3, 0) == 3 && network_of<back>.reads_value(3, 1) == 2);
struct anew : model<input<float, 4>, relu, stash<"a">, only<from<"b", tensor<float, 4>>>, relu, pop<"a">, add> {};
static_assert(network_of<anew>.layer_count == 4 && network_of<anew>.layers[1].reads == 0);
static_assert(network_of<anew>.layers[2].reads == 1 && network_of<anew>.reads_value(2, 0) == 2);
static_assert(network_of<anew>.reads_value(3, 1) == 1);

// A gradient flows to a floating-point value that depends on a parameter.
static_assert(!n.values[0].gradient && n.values[1].gradient && n.values[2].gradient && !n.values[3].gradient);
static_assert(n.values[0].writer == -1 && n.values[3].writer == 1 && n.values[12].writer == 8);
struct late : model<input<float, 4>, relu, halve, cross> {};
static_assert(!network_of<late>.values[1].gradient && !network_of<late>.values[2].gradient);
static_assert(network_of<late>.values[4].gradient && network_of<late>.values[5].gradient);

// Layers that read the same field share it, with the smaller limit.
struct two_losses : model<input<float, 8>, passing_loss, halve, cross, narrow, passing_loss> {};
constexpr const network& t = network_of<two_losses>;
static_assert(t.field_count == 2 && t.loss_layer() == 4);
static_assert(t.type_of(0).field_index[1] == 1 && t.type_of(4).field_index[0] == 0 && t.type_of(4).field_index[1] == 1);

// One layer reads a value twice if the layer itself pops the value.
struct doubled : model<input<float, 4>, stash<"x">, pop<"x">, add> {};
static_assert(network_of<doubled>.read_count == 2 && network_of<doubled>.values[0].readers == 2);

// A second stash of the same name inside a scope is another value; after the scope the outer value is back.
struct scoped : model<input<float, 4>, stash<"x">, relu, residual<stash<"x">, relu, pop<"x">, add>, pop<"x">, add> {};
constexpr const network& s = network_of<scoped>;
static_assert(s.layer_count == 5);        // relu, [relu, add, add], add
static_assert(s.reads_value(2, 1) == 1);  // the inner stash: the residual's input
static_assert(s.reads_value(3, 1) == 1);  // the residual's anonymous stash
static_assert(s.reads_value(4, 1) == 0);  // the outer stash

// Tied layers share the parameters of the first one, at any distance and with any number of repetitions.
template <int N>
struct scaled {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {N}}, {"bias", {2}}};
  };
};
struct shared : model<input<float, 4>, scaled<3>, tied<"a", scaled<5>>, tied<"b", scaled<7>>,
                      repeat<2, relu, tied<"a", scaled<5>>>, tied<"b", scaled<7>>> {};
constexpr const network& k = network_of<shared>;
static_assert(k.layer_count == 8 && k.type_count == 6 && k.parameters() == (3 + 2) + (5 + 2) + (7 + 2));
using at = gpipe::detail::named_array;
static_assert(k.owner(1, 1) == at{1, 1} && k.owner(4, 0) == at{1, 0} && k.owner(6, 1) == at{1, 1});
static_assert(k.owner(7, 0) == at{2, 0} && k.uses(7, 2) && !k.uses(7, 1));
static_assert(k.owns(1) && k.owns(3) && !k.owns(4) && !k.owns(7) && k.own_bytes(4) == 0 && k.tied_bytes(4) == 128);
static_assert(k.type_of(4).parameter_elements() == 7 && k.values[5].gradient);
struct repeated : model<input<float, 4>, repeat<6, tied<"a", scaled<5>>>> {};
static_assert(network_of<repeated>.type_count == 1 && network_of<repeated>.parameters() == 7);
// A block may contain the tied layer.
struct block : residual<tied<"c", scaled<9>>, relu> {};
struct blocks : model<input<float, 4>, block, relu, block> {};
static_assert(network_of<blocks>.parameters() == 11 && network_of<blocks>.owner(4, 1) == at{0, 1});

// A parameter is shared by its name. The first layer that has it owns it, and others are the layer's own.
template <class Name, int N>
struct beside {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{Name::letters, {N}}, {"weight", {3}}};
  };
};
struct other {
  static constexpr const char* letters = "other";
};
struct bias {
  static constexpr const char* letters = "bias";
};
struct parts : model<input<float, 4>, tied<"a", scaled<3>>, tied<"a", beside<other, 40>>, tied<"a", beside<bias, 2>>,
                     tied<"a", beside<other, 40>>, tied<"a", beside<other, 7>, "weight">, tied<"b", scaled<3>, "bias">,
                     tied<"b", beside<bias, 2>>, tied<"b", beside<other, 7>, "weight">> {};
constexpr const network& w = network_of<parts>;
static_assert(w.parameters() == (3 + 2) + 40 + 7 + (3 + 2) + 3 + 7);
static_assert(w.owner(1, 0) == at{1, 0} && w.owner(1, 1) == at{0, 0} && w.owner(2, 0) == at{0, 1});
static_assert(w.owner(3, 0) == at{1, 0} && w.owner(4, 0) == at{4, 0} && w.owner(4, 1) == at{0, 0});
static_assert(w.owner(6, 0) == at{5, 1} && w.owner(6, 1) == at{6, 1}, "the tie b has no weight before layer 6");
static_assert(w.owner(7, 0) == at{7, 0} && w.owner(7, 1) == at{6, 1});
static_assert(!w.owns(1) && w.owns(1, 0) && !w.owns(1, 1) && w.uses(3, 1) && w.uses(3, 0) && !w.uses(1, 2));
static_assert(w.own_bytes(1) == 192 && w.own_bytes(1, 1) == 192 && w.tied_bytes(1) == 64 && w.tied_bytes(1, 1) == 0);
static_assert(w.own_elements(3) == 0 && w.own_elements(4) == 7 && w.tied_bytes(3) == 192 + 64);

// A part shares rows of the layer that has all, at any place among them; without one parts share among themselves.
template <int Rows, int... First>
struct rows {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {Rows, 3, 2}}, {"scale", {Rows}}};
  };
  template <class In>
  requires(sizeof...(First) == 1) struct on<In> {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {Rows, 3, 2}}, {"bias", {Rows}}};
    static constexpr int first_row = (First + ...);
  };
};
struct of_rows
    : model<input<float, 4>, tied<"a", rows<9>>, tied<"a", rows<4, 5>>, tied<"a", rows<3, 0>>, tied<"a", rows<2, 7>>,
            tied<"b", rows<4, 5>>, tied<"b", rows<5, 0>>, tied<"b", rows<1, 8>>, tied<"b", rows<5, 0>>, rows<4, 5>> {};
constexpr const network& r = network_of<of_rows>;
static_assert(r.owner(1, 0) == at{0, 0} && r.owner_offset(1, 0) == 5 * 24 && r.owner(1, 1) == at{1, 1});
static_assert(r.owner(2, 0) == at{0, 0} && r.owner_offset(2, 0) == 0 && r.owner(2, 1) == at{2, 1});
static_assert(r.owner(3, 0) == at{0, 0} && r.owner_offset(3, 0) == 7 * 24 && r.owner(3, 1) == at{1, 1});
static_assert(r.owner_offset(3, 1) == 2 * 4, "of the bias of rows 5 to 8");
static_assert(r.owner(4, 0) == at{4, 0} && r.owner(5, 0) == at{5, 0} && r.owner(6, 0) == at{4, 0});
static_assert(r.owner_offset(6, 0) == 3 * 24 && r.owner_offset(6, 1) == 3 * 4 && r.owner_offset(7, 0) == 0);
static_assert(r.owner(7, 0) == at{5, 0} && r.owns(8) && r.tied_bytes(3) == 64 + 64 && r.tied_bytes(1) == 128);
static_assert(gpipe::detail::uses_part(r, {3, 1}) && !gpipe::detail::uses_part(r, {7, 0}));
static_assert(!gpipe::detail::uses_part(r, {8, 0}));
static_assert(r.parameters() == 9 * 7 + 4 + 3 + 4 * 7 + 5 * 7 + 4 * 7);

}  // namespace

TEST_CASE("fields keep their limits") {
  CHECK(std::string_view(t.fields[0].name) == "labels");
  CHECK(t.fields[0].below == 4);
  CHECK(std::string_view(t.fields[1].name) == "weights");
  CHECK(t.fields[1].optional);
}
