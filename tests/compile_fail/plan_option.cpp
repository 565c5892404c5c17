// expect: a plan's options are stages<S>, micro_batches<M>, micro_batch_size<B>, recompute<mode>, schedule<type>
// expect: option_of_a_plan<int, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, int, micro_batches<3>>;
#else
using some = plan<net, stages<2>, micro_batches<3>>;
#endif
static_assert(some::M == 3);
