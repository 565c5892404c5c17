// expect: a model's first argument is its input, and here it is another item: write model<input<float, 64>, ...>
// expect: model_begins_with_its_input<gpipe::linear<10>, false>
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<linear<10>, softmax_cross_entropy> {};
#else
struct net : model<input<float, 64>, linear<10>, softmax_cross_entropy> {};
#endif
trainer<net, sgd> training(plan_options{});
