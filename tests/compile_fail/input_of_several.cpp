// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes one tensor, and there are several. Put add
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, stash<"x">, relu, pop<"x">, linear<4>> {};
#else
struct net : model<input<float, 8>, stash<"x">, relu, pop<"x">, add, linear<4>> {};
#endif
constexpr int layers = layers_of<net>;
