// expect: cross_entropy{.clip} must be a float above 0
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 10>, softmax_cross_entropy_with<cross_entropy{.clip = -10}>> {};
#else
struct net : model<input<float, 10>, softmax_cross_entropy_with<cross_entropy{.clip = 10}>> {};
#endif
constexpr int layers = layers_of<net>;
