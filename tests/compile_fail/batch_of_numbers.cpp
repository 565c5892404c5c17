// expect: a call takes a batch, and was given something else
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>
#include <vector>

using namespace gpipe;

struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};

inline void look(trainer<net, adamw>& training, const std::vector<float>& image) {
#ifdef GPIPE_FAIL
  training.predict(image);
#else
  training.predict(batch{1}.with("inputs", image));
#endif
}
