// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes several tensors, and there is one
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, relu, add> {};
#else
struct net : model<input<float, 8>, stash<"x">, relu, pop<"x">, add> {};
#endif
constexpr int layers = layers_of<net>;
