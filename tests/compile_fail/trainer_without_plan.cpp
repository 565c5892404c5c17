// expect: a trainer is made of a plan and an optimizer
// expect: misgiven<net, gpipe::adamw>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

#ifdef GPIPE_FAIL
trainer training{net{}, adamw{}};
#else
trainer training{net{}, plan_options{}, adamw{}};
#endif
