// expect: .batch_size of fit is .batch here
// expect: .num_epochs of fit is .epochs here
// expect: fit has no .shuffle
// expect: fit has no learning rate
// expect: fit is a function of a trainer and data
// expect: gpipe: fit takes the trainer first
// expect: gpipe: behind the options stands the function that fit calls after each step
// expect: gpipe: the function that fit calls returns loop_control::go or loop_control::stop, or nothing
// expect: fit_goes_on_or_stops<bool, false>
// errors: 8
#include <gpipe/data.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void train(trainer<net, adamw>& training, const dataset& data) {
#ifdef GPIPE_FAIL
  fit(training, data, {.epochs = 2, .batch_size = 8});
  fit(training, data, {.batch = 8, .num_epochs = 8U});
  fit(training, data, {.shuffle = true});
  fit(training, data, {.learning_rate = 1e-3});
  training.fit(data);
  fit(data, training, {.epochs = 2});
  fit(training, data, fit_options{}, data);
  fit(training, data, {.epochs = 9}, [](const fit_progress& now) { return now.loss > 0.1; });
#else
  fit(training, data, {.epochs = 2, .batch = 8});
  fit(training, data, data, {.epochs = 2});
  fit(training, data, data, fit_options{}, [](const fit_progress&) {});
  fit(training, data, {.epochs = 9},
      [](const fit_progress& now) { return now.loss > 0.1 ? loop_control::go : loop_control::stop; });
#endif
}
