// expect: a plan's first argument is a model
// expect: model_of_a_plan<int, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<int, stages<2>, micro_batches<3>>;
#else
using some = plan<net, micro_batches<3>>;
#endif
static_assert(some::M == 3 && some::memory(0).total() > 0);
