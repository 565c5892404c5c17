// expect: on_devices<...> names a device for every stage .Stages, Devices.
// expect: every_stage_has_a_device<3, 2, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<3>, on_devices<h100, l4>>;
#else
using some = plan<net, stages<2>, on_devices<h100, l4>>;
#endif
static_assert(some::L == 3);
