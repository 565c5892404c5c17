// expect: the layer takes a feature map, and its input is a tensor
// expect: layer_accepts_input<gpipe::broken::position<1>, gpipe::conv2d<4, .*gpipe::tensor<float, 3, 8, 8>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 3, 8, 8>, relu, conv2d<4, 3>> {};
#else
struct net : model<input_image<float, 3, 8, 8>, relu, conv2d<4, 3>> {};
#endif
constexpr int layers = layers_of<net>;
