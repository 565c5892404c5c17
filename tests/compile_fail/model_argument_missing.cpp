// expect: a type is not a model: write `struct net
// expect: a layer whose arguments all have defaults needs <>, as in batch_norm<>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 64>, batch_norm, softmax_cross_entropy> {};
#else
struct net : model<input<float, 64>, batch_norm<>, softmax_cross_entropy> {};
#endif
trainer<net, adamw> training(plan_options{});
