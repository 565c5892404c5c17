// expect: a model computes in bf16 only if its input does
// expect: precision_enters_with_the_input<
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<double, 8>, linear<4>, linear<4>> {};
#else
struct net : model<input<float, 8>, linear<4>, linear<4>> {};
#endif
using some = plan<net, stages<2>, micro_batches<3>, precision_is<precision::bf16>>;
static_assert(some::M == 3 && some::memory(0).total() > 0);
