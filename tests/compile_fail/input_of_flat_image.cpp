// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes a feature map, and its input is a tensor
// errors: 1
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 784>, conv2d<4, 3>> {};
#else
struct net : model<input_image<float, 1, 28, 28>, conv2d<4, 3>> {};
#endif
constexpr int layers = layers_of<net>;
