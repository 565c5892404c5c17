// expect: gpipe: a name is a text in double quotes
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, stash<'x'>, relu, pop<'x'>, add> {};
#else
struct net : model<input<float, 8>, stash<"x">, relu, pop<"x">, add> {};
#endif
constexpr int layers = layers_of<net>;
