// expect: groups must divide its input channels and its output channels
// expect: groups_divide_channels<gpipe::conv2d<4, .*gpipe::feature_map<float, 6, 8, 8>, false,
// expect: gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int groups = 3;  // divides 6, but not 4
#else
constexpr int groups = 2;
#endif
struct net : model<input_image<float, 6, 8, 8>, conv2d<4, 3, conv_options{.groups = groups}>> {};
constexpr int layers = layers_of<net>;
