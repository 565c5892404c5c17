// expect: only<Item> needs a pop
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, stash<"x">, relu, stash<"y">,
#ifdef GPIPE_FAIL
                   only<relu>,
#else
                   only<pop<"x">>,
#endif
                   pop<"y">, add, relu> {
};
constexpr int layers = layers_of<net>;
