// expect: a layer has no .*on<Input>.* for the output of the layer before it
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

// A mistake in the model is one error; the missing loss is not reported as a second one.
#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, add, softmax_cross_entropy> {};
#else
struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};
#endif
trainer<net, sgd> training(plan_options{});
