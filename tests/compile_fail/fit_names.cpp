// expect: .batch_size of fit is .batch here
// expect: .num_epochs of fit is .epochs here
// expect: fit has no .shuffle
// expect: fit has no learning rate
// expect: fit is a function of a trainer and data
// errors: 5
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
#else
  fit(training, data, {.epochs = 2, .batch = 8});
#endif
}
