// expect: a trainer's second argument is not an optimizer, such as adamw
// expect: trainer_has_an_optimizer<double, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

#ifdef GPIPE_FAIL
trainer training{net{}, plan_options{}, 1e-3};
#else
trainer training{net{}, plan_options{}, sgd{.learning_rate = 1e-3}};
#endif
