// expect: a stage needs more memory than it is allowed .Stage, BytesNeeded, BytesAllowed.
// expect: stage_fits_memory<1, 256, 200, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
constexpr device_spec small = l4.with_limit(200);
#else
constexpr device_spec small = l4.with_limit(1_MiB);
#endif
using some = plan<net, micro_batch_size<1>, cut_at<1>, on_devices<h100, small>>;
static_assert(some::memory(0).total() < 1_MiB);
