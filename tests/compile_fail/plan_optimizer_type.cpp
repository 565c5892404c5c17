// expect: optimizer<type> needs an? optimizer, such as
// expect: optimizer_of_a_plan<int, false>
// errors: 1
#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, optimizer<int>>;
#else
using some = plan<net, stages<2>, optimizer<sgd>>;
#endif
static_assert(some::S == 2 && some::memory(0).total() > 0);
