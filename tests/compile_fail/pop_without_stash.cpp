// expect: a pop has no stash of its name before it in its scope
// expect: pop_has_a_stash<gpipe::broken::position<3>, gpipe::stash<
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

// A residual is a scope: a stash inside it is not visible after it.
struct net : model<input<float, 8>, stash<"y">, residual<stash<"x">, relu, pop<"x">, add>,
#ifdef GPIPE_FAIL
                   pop<"x">,
#else
                   pop<"y">,
#endif
                   add> {
};
constexpr int layers = layers_of<net>;
