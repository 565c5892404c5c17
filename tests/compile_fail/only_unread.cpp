// expect: an only<...> leaves a tensor behind that no layer reads
// expect: only_leaves_what_is_stashed<gpipe::broken::position<1>, gpipe::detail::letters<'r', 'e', 'l', 'u'>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, stash<"x">, relu,
#ifndef GPIPE_FAIL
                   stash<"y">,
#endif
                   only<pop<"x">>, relu,
#ifndef GPIPE_FAIL
                   pop<"y">, add,
#endif
                   relu> {
};
constexpr int layers = layers_of<net>;
