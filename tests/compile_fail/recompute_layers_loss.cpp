// expect: recompute_layers<...> has a pattern that names a loss or the last layer of the model .Model, Pattern, Layer.
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net
    : model<input<float, 8>, named<"h", repeat<2, named<"act", relu>, linear<8>>>, linear<4>, softmax_cross_entropy> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, recompute_layers<"relu", "softmax_cross_entropy">>;
#else
using some = plan<net, stages<2>, recompute_layers<"relu", "linear">>;
#endif
static_assert(some::S == 2 && some::cut().stages == 2);
