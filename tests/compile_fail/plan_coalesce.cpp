// expect: add recompute<recompute_mode::never>, or leave out coalesce<G>
// expect: coalesced_where_nothing_is_recomputed<4, false>
// errors: 1
#include <gpipe/layer/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
constexpr auto mode = recompute_mode::except_last;
#else
constexpr auto mode = recompute_mode::never;
#endif
using some = plan<net, stages<3>, micro_batches<8>, coalesce<4>, gpipe::recompute<mode>>;
static_assert(some::makespan() > 0);
