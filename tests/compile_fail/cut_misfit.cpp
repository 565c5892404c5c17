// expect: no cut into these stages fits the memory limit .Stages, Stage, BytesAllowed, SmallestLimit.
// expect: some_cut_fits_memory<2, 1, 256, 24640, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 64>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, memory_limit<256>>;
#else
using some = plan<net, stages<2>, memory_limit<1_MiB>>;
#endif
static_assert(some::S == 2 && some::cut().stages == 2);
