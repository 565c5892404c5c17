#include <gpipe/model/path_tree.hpp>

#include <doctest/doctest.h>

#include <string_view>

#include <gpipe/layer.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/transformer.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <class Model>
constexpr bool is_path(int layer, std::string_view expected) {
  char path[64]{};
  const std::size_t length = write_path(network_of<Model>.paths, layer, path);
  return std::string_view(path, length) == expected;
}
template <class Model, std::size_t N>
constexpr bool are_paths(const std::string_view (&expected)[N]) {
  for (std::size_t l = 0; l < N; ++l)
    if (!is_path<Model>(static_cast<int>(l), expected[l])) return false;
  return network_of<Model>.layer_count == N;
}

using eight = input<float, 8>;

// Every item of a list counts: layers, stash and pop, further inputs.
struct flat : model<eight, linear<8>, relu, stash<"x">, linear<8>, pop<"x">, add, from<"age", tensor<float, 1>>,
                    gpipe::concat<>, linear<4>, softmax_cross_entropy> {};
static_assert(are_paths<flat>({"0", "1", "3", "5", "6", "7", "8", "9"}));

// A stash of several tensors, and a pop that leaves the others, are no layers either.
struct several_stashed : model<eight, linear<8>, stash<"x">, relu, pop<"x">, stash<"a", "b">, only<pop<"b">>, linear<8>,
                               pop<"a">, add, softmax_cross_entropy> {};
static_assert(are_paths<several_stashed>({"0", "2", "6", "8", "9"}));

// A scope adds its index, and its items add theirs. The addition has the path of its residual.
struct block : sequence<relu, linear<8>> {};
struct scopes : model<eight, block, residual<linear<8>, sequence<relu, linear<8>>>, tied<"a", linear<8>>, relu,
                      tied<"a", linear<8>>, softmax_cross_entropy> {};
static_assert(are_paths<scopes>({"0.0", "0.1", "1.0", "1.1.0", "1.1.1", "1", "2", "3", "4", "5"}));

// A repeat adds the number of the repetition, which takes the place of a single item's index.
struct repeats : model<eight, relu, repeat<2, relu, linear<8>>, repeat<2, linear<8>>, repeat<2, block>,
                       repeat<2, repeat<2, relu>, relu>, repeat<2, repeat<2, relu>>, softmax_cross_entropy> {};
static_assert(are_paths<repeats>({"0",     "1.0.0", "1.0.1", "1.1.0",   "1.1.1",   "2.0",   "2.1",     "3.0.0",
                                  "3.0.1", "3.1.0", "3.1.1", "4.0.0.0", "4.0.0.1", "4.0.1", "4.1.0.0", "4.1.0.1",
                                  "4.1.1", "5.0.0", "5.0.1", "5.1.0",   "5.1.1",   "6"}));

// A body that changes the flow has types of its own in later repetitions, but the same names.
struct changing : model<eight, repeat<3, linear<6>, relu>, softmax_cross_entropy> {};
static_assert(are_paths<changing>({"0.0.0", "0.0.1", "0.1.0", "0.1.1", "0.2.0", "0.2.1", "1"}));

// The names of GPT-2. A residual whose items all have names adds nothing, one in which only some have adds its index.
struct gpt
    : model<eight, named<"wte", linear<8>>,
            named<"h", repeat<2, residual<named<"ln_1", layer_norm>, named<"attn", linear<8>>>,
                              residual<named<"ln_2", layer_norm>,
                                       named<"mlp", named<"c_fc", linear<16>>, gelu, named<"c_proj", linear<8>>>>>>,
            residual<named<"half", linear<8>>, relu>, named<"ln_f", layer_norm>, softmax_cross_entropy> {};
static_assert(are_paths<gpt>({"wte",       "h.0.ln_1",
                              "h.0.attn",  "h.0",
                              "h.0.ln_2",  "h.0.mlp.c_fc",
                              "h.0.mlp.1", "h.0.mlp.c_proj",
                              "h.0",       "h.1.ln_1",
                              "h.1.attn",  "h.1",
                              "h.1.ln_2",  "h.1.mlp.c_fc",
                              "h.1.mlp.1", "h.1.mlp.c_proj",
                              "h.1",       "2.half",
                              "2.1",       "2",
                              "ln_f",      "4"}));
static_assert(network_of<in_bf16<gpt>>.paths == network_of<gpt>.paths);

// A name is for a layer, a scope, or several items; the name "" adds nothing.
struct head : named<"head", linear<4>> {};
struct names
    : model<eight, named<"r", residual<named<"a", linear<8>>>>, named<"t", tied<"x", linear<8>>>,
            named<"", residual<relu, named<"b", linear<8>>>>, named<"outer", named<"inner", linear<8>>>,
            named<"s", sequence<relu, linear<8>>>, named<"", repeat<2, linear<8>>>, head, softmax_cross_entropy> {};
static_assert(are_paths<names>({"r.a", "r", "t", "0", "b", "", "outer.inner", "s.0", "s.1", "0", "1", "head", "7"}));

static_assert(is_path<transformer<1663>>(network_of<transformer<1663>>.layer_count - 2, "1.1662.1"));
static_assert(path_tree<transformer<1663>::items>.size() < 20);  // repetitions are not expanded

// A collision only among layers without parameters compiles; any other is found.
template <class... Items>
constexpr path_collision collision = path_collision(named_view<model<eight, Items...>>());
template <class... Items>
constexpr bool collide(int layer, int other) {
  return collision<Items...>.layer_index == layer && collision<Items...>.other_index == other;
}
static_assert(collide<named<"x", relu>, named<"x", linear<8>>>(-1, -1));
static_assert(collide<named<"x", linear<8>>, relu, named<"x", linear<8>>>(0, 2));
static_assert(collide<named<"x", linear<8>>, named<"x", named<"x", linear<8>>>>(-1, -1));
static_assert(collide<linear<8>, named<"", relu, linear<8>>>(-1, -1));
static_assert(collide<relu, linear<8>, named<"", relu, linear<8>>>(1, 3));
static_assert(collide<named<"h", repeat<3, linear<8>>>, named<"h", relu, linear<8>>>(1, 4));
static_assert(collide<named<"h", repeat<1, linear<8>>>, named<"h", relu, linear<8>>>(-1, -1));
static_assert(collide<named<"h", relu, linear<8>>, named<"h", repeat<2, layer_norm>>>(1, 3));
static_assert(collide<named<"h", linear<8>>, named<"h", relu, residual<named<"", linear<8>>>>>(0, 2));
static_assert(collide<repeat<2, named<"a", linear<8>>, residual<named<"a", linear<8>>>>>(0, 1));
static_assert(collide<repeat<2, residual<named<"a", linear<8>>>, residual<named<"b", linear<8>>>>>(-1, -1));
static_assert(collide<named<"t", tied<"x", linear<8>>>, named<"t", tied<"x", linear<8>>>>(0, 1));
static_assert(collide<named<"", linear<8>>, named<"", layer_norm>>(0, 1));
static_assert(collide<named<"n", batch_norm<>>, named<"n", linear<8>>>(0, 1));

static_assert(is_path_name("fc1") && is_path_name("1x") && !is_path_name("12") && !is_path_name("a.b"));

}  // namespace

TEST_CASE("every layer has a path") {
  char path[32]{};
  CHECK(std::string_view(path, write_path(network_of<gpt>.paths, 13, path)) == "h.1.mlp.c_fc");
}
