// expect: a plan has one recompute_layers<...>: write all patterns in one list
// expect: recompute_layers_of_one_list<2, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, named<"h", repeat<2, named<"act", relu>, linear<8>>>, linear<4>> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, recompute_layers<"h.0.act">, recompute_layers<"h.1.act">>;
#else
using some = plan<net, stages<2>, recompute_layers<"h.0.act", "h.1.act">>;
#endif
static_assert(some::S == 2 && some::cut().stages == 2);
