// expect: a stash has no pop of its name after it in its scope
// expect: stash_is_read<gpipe::broken::position<1>, gpipe::stash<
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu,
                   repeat<3, stash<"x">, relu,
#ifndef GPIPE_FAIL
                          pop<"x">, add,
#endif
                          relu>> {
};
constexpr int layers = layers_of<net>;
