// expect: a pop has no stash of its name before it in its scope, where there are these Stashes
// expect: stashes<gpipe::broken::stash_named<.e., .a., .r., .l., .y.>, gpipe::broken::stash_named<.l., .a., .t., .e.>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, stash<"early">, relu, stash<"late">, relu,
#ifdef GPIPE_FAIL
                   pop<"erly">,
#else
                   pop<"early">,
#endif
                   add, pop<"late">, add> {
};
constexpr int layers = layers_of<net>;
