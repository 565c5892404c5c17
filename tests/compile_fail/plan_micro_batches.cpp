// expect: a plan needs at least one micro-batch of at least one sample
// expect: micro_batches_hold_samples<0, 8, false>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
constexpr int M = 0;
#else
constexpr int M = 1;
#endif
using some = plan<net, micro_batches<M>, micro_batch_size<8>>;
static_assert(some::L == 3);
