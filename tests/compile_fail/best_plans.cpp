// expect: no plan has these fixed choices
// expect: best_has_a_plan<2, 40, 0, 0, 3, 4, false>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/tools/best/best.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, linear<32>, linear<8>> {};
#ifdef GPIPE_FAIL
using some = plan<net, best<devices<2>, mini_batch<40>, micro_batches<3>, micro_batch_size<4>>>;
#else
using some = plan<net, best<devices<2>, mini_batch<12>, micro_batches<3>, micro_batch_size<4>>>;
#endif
static_assert(some::S > 0);
