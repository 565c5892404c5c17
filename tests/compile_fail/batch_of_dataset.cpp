// expect: a call takes a batch, and was given something else
// expect: argument_is_a_batch<gpipe::dataset, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void train(trainer<net, adamw>& training, const dataset& data) {
#ifdef GPIPE_FAIL
  training.step(data);
#else
  for (const batch& part : data.batches(32)) training.step(part);
  training.evaluate(data);
#endif
}
