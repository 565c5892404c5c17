// expect: a trainer's first argument is a plan, and should be its model
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

#ifdef GPIPE_FAIL
trainer<plan<net>, adamw> training{plan<net>{}, adamw{}};
#else
trainer<net, adamw> training{plan<net>{}, adamw{}};
#endif
