// expect: no cut into these stages fits the memory limit .Stages, Stage, BytesAllowed, SmallestLimit.
// expect: some_cut_fits_memory<2, 1, 256, 16448, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 64>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
constexpr device_spec small = l4.with_limit(256);
#else
constexpr device_spec small = l4.with_limit(1_MiB);
#endif
using some = plan<net, stages<2>, on_devices<h100, small>>;
static_assert(some::S == 2 && some::cut().stages == 2);
