// expect: recompute_layers<...> names layers, and recompute<Mode> is for whole micro-batches: choose one
// expect: recompute_layers<...> has a pattern that names a loss or the last layer of the model .Model, Pattern, Layer.
// expect: a plan has one recompute_layers<...>: write all patterns in one list
// expect: recompute_layers_of_one_list<2, false>
// expect: recompute_layers<...> has a pattern that no layer of the model matches .Model, Pattern.
// errors: 4
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net
    : model<input<float, 8>, named<"h", repeat<2, named<"act", relu>, linear<8>>>, linear<4>, softmax_cross_entropy> {};

#ifdef GPIPE_FAIL
constexpr int stages_of[] = {plan<net, stages<2>, recompute_layers<"h">, recompute<recompute_mode::always>>::S,
                             plan<net, stages<2>, recompute_layers<"relu", "softmax_cross_entropy">>::S,
                             plan<net, stages<2>, recompute_layers<"h.0.act">, recompute_layers<"h.1.act">>::S,
                             plan<net, stages<2>, recompute_layers<"h.*.mlp">>::S};
#else
constexpr int stages_of[] = {plan<net, stages<2>, recompute_layers<"h">, recompute<recompute_mode::never>>::S,
                             plan<net, stages<2>, recompute_layers<"relu", "linear">>::S,
                             plan<net, stages<2>, recompute_layers<"h.0.act", "h.1.act">>::S,
                             plan<net, stages<2>, recompute_layers<"h.*.act">>::S};
#endif
