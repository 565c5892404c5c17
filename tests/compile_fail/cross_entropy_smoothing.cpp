// expect: cross_entropy{.smoothing} must be in 0 ... 1
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, softmax_cross_entropy_with<cross_entropy{.smoothing = 1.5}>> {};
#else
struct net : model<input<float, 10>, softmax_cross_entropy_with<cross_entropy{.smoothing = 0.1}>> {};
#endif
constexpr int layers = layers_of<net>;
