// expect: a trainer's second argument is not an optimizer, such as adamw
// expect: trainer_has_an_optimizer<void, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

#ifdef GPIPE_FAIL
trainer<net> training{plan_options{}};
#else
trainer<net, adamw> training{plan_options{}};
#endif
