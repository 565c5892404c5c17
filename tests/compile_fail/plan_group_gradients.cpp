// expect: with schedule<fill_drain>, or leave out group_gradients<G>
// expect: gradients_grouped_by_fill_drain<4, false>
// expect: add recompute<recompute_mode::never>, or leave out group_gradients<G>
// expect: gradients_grouped_without_recompute<4, false>
// errors: 2
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, relu, relu> {};
#ifdef GPIPE_FAIL
using order = one_f_one_b;
constexpr auto mode = recompute_mode::except_last;
#else
using order = fill_drain;
constexpr auto mode = recompute_mode::never;
#endif
using some = plan<net, stages<3>, micro_batches<8>, group_gradients<4>, gpipe::schedule<order>, gpipe::recompute<mode>>;
static_assert(some::makespan() > 0);
