// expect: gpipe: behind the options stands the function that fit calls after each step
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
  fit(training, data, fit_options{}, data);
#else
  fit(training, data, data, fit_options{}, [](const fit_progress&) {});
#endif
}
