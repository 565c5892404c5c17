// expect: a trainer is made of a plan and an optimizer
// expect: a predictor has a model and, on another device, that device, and no optimizer
// errors: 2
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/train.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void make() {
#ifdef GPIPE_FAIL
  trainer<net, adamw> training{4, adamw{}};
  predictor<net, adamw> predicting{plan_options{}};
#else
  trainer<net, adamw> training{plan_options{.stages = 2}, adamw{}};
  predictor<net> predicting{plan_options{}};
#endif
}
