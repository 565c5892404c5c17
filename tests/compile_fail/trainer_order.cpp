// expect: a trainer is made of a plan and an optimizer
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void train() {
#ifdef GPIPE_FAIL
  trainer training{adamw{}, plan_options{}};
#else
  trainer training{net{}, plan_options{}, adamw{}};
#endif
  training.step(batch{1});
}
