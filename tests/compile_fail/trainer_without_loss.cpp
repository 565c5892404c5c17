// expect: a model that is trained ends in a loss: a layer with the partial .*loss.*, such as softmax_cross_entropy
// expect: model_ends_in_a_loss<net, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, relu, relu> {};
#else
struct net : model<input<float, 8>, relu, softmax_cross_entropy> {};
#endif
trainer<net, sgd> training(plan_options{});
