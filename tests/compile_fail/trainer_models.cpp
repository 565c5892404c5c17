// expect: a model that is trained ends in a loss: a layer with the partial .*loss.*, such as softmax_cross_entropy
// expect: model_ends_in_a_loss<.*, false>
// expect: a layer has no .*on<Input>.* for the output of the layer before it
// expect: a model's first argument is its input, and here it is another item: write model<input<float, 64>, ...>
// expect: model_begins_with_its_input<gpipe::linear<10>, false>
// errors: 3
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

using namespace gpipe;

// A mistake in the model is one error; the missing loss is not reported as a second one.
#ifdef GPIPE_FAIL
struct without_loss : model<input<float, 8>, relu, relu> {};
struct without_input : model<linear<10>, softmax_cross_entropy> {};
struct mistaken : model<input<float, 8>, add, softmax_cross_entropy> {};
#else
struct without_loss : model<input<float, 8>, relu, softmax_cross_entropy> {};
struct without_input : model<input<float, 64>, linear<10>, softmax_cross_entropy> {};
struct mistaken : model<input<float, 8>, relu, softmax_cross_entropy> {};
#endif
trainer<without_loss, sgd> first(plan_options{});
trainer<without_input, sgd> second(plan_options{});
trainer<mistaken, sgd> third(plan_options{});
