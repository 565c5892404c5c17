// expect: a window must be at least 1 and not larger than the image with its padding
// expect: window_is_in_the_image<gpipe::conv2d<4, .*gpipe::feature_map<float, 3, 8, 8>, 11, 10, false,
// expect: gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int window = 11;
#else
constexpr int window = 10;
#endif
struct net : model<input_image<float, 3, 8, 8>, conv2d<4, window, conv_options{.padding = 1}>> {};
constexpr int layers = layers_of<net>;
