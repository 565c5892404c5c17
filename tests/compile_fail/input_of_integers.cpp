// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes floating point, and its input is of integers
// errors: 1
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<std::int32_t, 8>, linear<4>, softmax_cross_entropy> {};
#else
struct net : model<input<float, 8>, linear<4>, softmax_cross_entropy> {};
#endif
constexpr int layers = layers_of<net>;
