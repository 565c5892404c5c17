// expect: a stash with several names needs one name for each tensor on the edge
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, stash<"x">, relu, pop<"x">,
#ifdef GPIPE_FAIL
                   stash<"a", "b", "c">,
#else
                   stash<"a", "b">,
#endif
                   add, pop<"a">, add, pop<"b">, add> {
};
constexpr int layers = layers_of<net>;
