// expect: zb_v, dual_pipe_v, v_half and v_min admit an even number of stages
// expect: schedule_admits<3, 4, gpipe::broken::admitted_stages<2, 4>, gpipe::broken::admitted_micro_batches<>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<3>, micro_batches<4>, schedule<zb_v>>;
#else
using some = plan<net, stages<4>, micro_batches<4>, schedule<zb_v>>;
#endif
static_assert(some::M == 4);
