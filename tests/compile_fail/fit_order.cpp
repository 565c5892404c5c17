// expect: gpipe: fit takes the trainer first
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void train(trainer<net, adamw>& training, const dataset& data) {
#ifdef GPIPE_FAIL
  fit(data, training, {.epochs = 2});
#else
  fit(training, data, {.epochs = 2});
  fit(training, data, data, {.epochs = 2});
#endif
}
