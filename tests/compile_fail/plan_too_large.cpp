// expect: too_large_for_a_constant_so_call_it_at_run_time
// expect: call to
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, repeat<128, linear<8>>> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<128>, micro_batches<128>, micro_batch_size<1>>;
#else
using some = plan<net, stages<16>, micro_batches<64>, micro_batch_size<1>>;
#endif
static_assert(some::makespan() >= some::lower_bound());
