// expect: a searched schedule is found at run time
// expect: schedule_is_searched_at_run_time<gpipe::searched_schedule, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, schedule<searched_schedule>>;
#else
using some = plan<net, stages<2>, schedule<zb_v>>;
#endif
static_assert(some::S == 2 && some::memory(0).total() > 0);
