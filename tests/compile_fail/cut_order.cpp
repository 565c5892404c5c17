// expect: a cut names ascending layers of the model, and no stage is empty .Stage, its First layer, the End of
// expect: cut_ascends<1, 2, 1, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, cut_at<2, 1>>;
#else
using some = plan<net, cut_at<1, 2>>;
#endif
static_assert(some::S == 3);
