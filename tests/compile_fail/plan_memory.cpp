// expect: a stage needs more memory than it is allowed .Stage, BytesNeeded, BytesAllowed.
// expect: stage_fits_memory<0, 832, 768, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu> {};
using some = plan<net, micro_batches<4>, micro_batch_size<2>>;
#ifdef GPIPE_FAIL
static_assert(require_fits<some, some::memory(0).total() - 64>());
#else
static_assert(require_fits<some, some::memory(0).total()>());
#endif
