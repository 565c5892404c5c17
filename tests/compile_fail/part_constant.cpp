// expect: this plan is completed at run time, because it is large, .*: #include <gpipe/make_plan.hpp>
// errors: 1
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/make_plan.hpp>
#endif

using namespace gpipe;

struct net : model<input<float, 4>, linear<4>, linear<4>, softmax_cross_entropy> {};
using fitted = plan<net, stages<2>, micro_batches<4>, recompute<recompute_mode::as_needed>, memory_limit<1_MiB>>;
void train() { trainer training{fitted{}, sgd{}}; }
