// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes a tensor, and its input is a feature map. Put flatten
// errors: 1
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/shape/flatten.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input_image<float, 1, 8, 8>, conv2d<4, 3>, linear<10>> {};
#else
struct net : model<input_image<float, 1, 8, 8>, conv2d<4, 3>, flatten, linear<10>> {};
#endif
constexpr int layers = layers_of<net>;
