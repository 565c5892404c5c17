// expect: recompute_layers<...> names layers, and recompute<Mode> is for whole micro-batches: choose one
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 64>, named<"h", relu>, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, recompute_layers<"h">, recompute<recompute_mode::always>>;
#else
using some = plan<net, stages<2>, recompute_layers<"h">, recompute<recompute_mode::never>>;
#endif
static_assert(some::S == 2 && some::cut().stages == 2);
