// expect: schedule<type> needs an? schedule, such as
// expect: schedule_of_a_plan<int, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, schedule<int>>;
#else
using some = plan<net, stages<2>, schedule<one_f_one_b>>;
#endif
static_assert(some::S == 2 && some::memory(0).total() > 0);
