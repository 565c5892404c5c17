// expect: with_shared_packed_weights and with_kept_packed_weights contradict each other: choose one
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<8>, linear<8>> {};
#ifdef GPIPE_FAIL
using some = plan<net, stages<2>, with_shared_packed_weights, with_kept_packed_weights>;
#else
using some = plan<net, stages<2>, with_kept_packed_weights>;
#endif
static_assert(some::S == 2 && some::memory(0).total() > 0);
