// expect: the schedule has work for fewer workers .Workers, MaxWorkers.
// expect: workers_have_work<4, 3, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
constexpr int W = 4;
#else
constexpr int W = 2;
#endif
using some = plan<net, stages<3>, micro_batches<2>, workers<W>>;
static_assert(some::makespan() > 0);
