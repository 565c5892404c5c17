// expect: a cut names the first layer of every stage but the first .Stages, Layers.
// expect: cut_has_a_layer_for_each_stage<2, 2, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, cut_at<1, 2>, stages<2>>;
#else
using some = plan<net, cut_at<1, 2>, stages<3>>;
#endif
static_assert(some::L == 3 && some::cut().stages > 1);
