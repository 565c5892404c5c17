// expect: a trainer of plan_options plans at run time: #include <gpipe/make_plan.hpp>
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/train.hpp>
#ifndef GPIPE_FAIL
#include <gpipe/make_plan.hpp>
#endif

using namespace gpipe;

struct net : model<input<float, 4>, linear<4>, softmax_cross_entropy> {};
void train() { trainer<net, sgd> training(plan_options{.stages = 2}); }
