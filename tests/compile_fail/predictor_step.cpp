// expect: a predictor has weights and a forward pass, and no gradients: to take steps make a trainer
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/predictor.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};
#ifdef GPIPE_FAIL
predictor<net> served(plan_options{});
#else
trainer<net, sgd> served(plan_options{});
#endif
void take_step(const batch& data) { served.step(data); }
