// expect: same_padding needs a stride of 1 and a window that reaches over an odd number of pixels
// expect: same_padding_keeps_the_image<gpipe::conv2d<4, .*gpipe::feature_map<float, 6, 8, 8>, false,
// expect: gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int kernel = 4;
#else
constexpr int kernel = 5;
#endif
struct net : model<input_image<float, 6, 8, 8>, conv2d<4, kernel, conv_options{.padding = same_padding}>> {};
constexpr int layers = layers_of<net>;
