// expect: gpipe: the function that fit calls returns loop_control::go or loop_control::stop, or nothing
// expect: fit_goes_on_or_stops<bool, false>
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
  fit(training, data, {.epochs = 9}, [](const fit_progress& now) { return now.loss > 0.1; });
#else
  fit(training, data, {.epochs = 9},
      [](const fit_progress& now) { return now.loss > 0.1 ? loop_control::go : loop_control::stop; });
#endif
}
