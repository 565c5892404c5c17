// expect: a layer has no .on<Input>. for the output of the layer before it: there is no tensor, because that layer is a loss
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, softmax_cross_entropy, linear<4>> {};
#else
struct net : model<input<float, 8>, auxiliary<"early", 0.4, softmax_cross_entropy>, linear<4>> {};
#endif
constexpr int layers = layers_of<net>;
