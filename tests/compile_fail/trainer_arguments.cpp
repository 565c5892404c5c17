// expect: a trainer is made of a plan and an optimizer
// expect: misgiven<net, gpipe::adamw>
// expect: misgiven<net, gpipe::adamw, gpipe::plan_options>
// expect: a trainer's second argument is not an optimizer, such as adamw
// expect: trainer_has_an_optimizer<double, false>
// expect: trainer_has_an_optimizer<void, false>
// expect: a trainer's first argument is a plan, and should be its model
// expect: a predictor has a model and, on another device, that device, and no optimizer
// expect: a predictor.s plan runs forward only: add schedule<forward_only> to its options
// expect: a predictor has weights and a forward pass, and no gradients: to take steps make a trainer
// errors: 10
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/predict.hpp>
#include <gpipe/train.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};
using planned = plan<net, stages<2>>;

inline void make(const batch& data) {
#ifdef GPIPE_FAIL
  trainer in_order{adamw{}, plan_options{}};
  in_order.step(batch{1});
  trainer without_plan{net{}, adamw{}};
  trainer of_three{net{}, adamw{}, plan_options{}};
  trainer of_rate{net{}, plan_options{}, 1e-3};
  trainer<net> without_optimizer{plan_options{}};
  trainer<planned, adamw> of_plan{planned{}, adamw{}};
  trainer<net, adamw> of_number{4, adamw{}};
  predictor<net, adamw> with_optimizer{plan_options{}};
  predictor<net> of_training_plan{planned{}};
  predictor<net>{plan_options{}}.step(data);
#else
  trainer in_order{net{}, plan_options{}, adamw{}};
  in_order.step(batch{1});
  trainer of_rate{net{}, plan_options{}, sgd{.learning_rate = 1e-3}};
  trainer<net, adamw> with_optimizer{plan_options{}};
  trainer<net, adamw> of_plan{planned{}, adamw{}};
  predictor<net> predicting{plan_options{}};
  predictor<net> of_plan_of_predictions{plan<net, stages<2>, schedule<forward_only>>{}};
  trainer<net, sgd>{plan_options{}}.step(data);
#endif
}
