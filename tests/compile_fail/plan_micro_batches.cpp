// expect: the value of a plan's option is out of range .Member, Value, Min, Max.
// expect: option_in_range<&gpipe::plan_options::micro_batches, 0, 1, 2147483647, false>
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
