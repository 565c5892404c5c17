// expect: a plan has at most as many stages as the model has layers .Stages, Layers.
// expect: a_layer_for_each_stage<4, 3, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using four = plan<net, stages<4>>;
static_assert(four::L == 3);
#endif
using three = plan<net, stages<3>>;
static_assert(three::L == 3);
