// expect: deleted (function|constructor)
// expect: a call takes a batch, and was given something else
// expect: argument_is_a_batch<gpipe::dataset, false>
// expect: argument_is_a_batch<std::vector<int
// expect: training.step.batch. runs forward, backward and the update, with gradients that begin at zero
// expect: an array is named by its path, parameter
// expect: array_has_a_path<long
// expect: array_has_a_path<unsigned
// expect: the number of epochs is an option of fit
// expect: fit takes a dataset or another source of batches, and was given something else
// expect: a trainer is made of a plan and an optimizer
// expect: a trainer.s third argument is a device
// errors: 13
#include <gpipe/data.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>
#include <utility>
#include <vector>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void train(trainer<net, adamw>& training, const std::vector<float>& images, const std::vector<int>& labels,
                  const dataset& data) {
#ifdef GPIPE_FAIL
  trainer<net, adamw> other = training;
  training.zero_grad();
  training.step(images, labels);
  training.step(data);
  training.predict(labels);
  training.parameter(0);
  training.array(0L);
  training.state_array(0U);
  fit(training, data, 10);
  fit(training, images);
  fit(training, labels, {.epochs = 10});
  trainer<net, adamw> of_stages{4};
  trainer<net, adamw, plan<net, stages<1>>> planned;
#else
  trainer<net, adamw> other = std::move(training);
  training.step(batch{1}.with("inputs", images).with("labels", labels));
  for (const batch& part : data.batches(32)) training.step(part);
  training.evaluate(data);
  training.predict(batch{1}.with("inputs", images));
  training.parameter(0, "weight");
  training.array(0, "weight"), training.state_array("1.running_mean");
  fit(training, data, {.epochs = 10});
  fit(training, data);
  trainer<net, adamw> of_stages{plan_options{.stages = 1}};
  trainer<net, adamw> planned{plan<net, stages<1>>{}};
#endif
}
