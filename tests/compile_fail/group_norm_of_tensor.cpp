// expect: the layer takes a feature map, and its input is a tensor
// expect: layer_accepts_input<gpipe::broken::position<1>, gpipe::group_norm<32>, gpipe::tensor<float, 64>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/normalization/group_norm.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 64>, relu, group_norm<32>> {};
#else
struct net : model<input_image<float, 64, 1, 1>, relu, group_norm<32>> {};
#endif
constexpr int layers = layers_of<net>;
