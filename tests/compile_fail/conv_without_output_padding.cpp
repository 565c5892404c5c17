// expect: output_padding must be at least 0 and below the stride of a conv_transpose2d, and conv2d has none
// expect: output_padding_is_below_the_stride<gpipe::conv2d<4, .*, 1, 2, false, gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int more = 1;
#else
constexpr int more = 0;
#endif
struct net : model<input_image<float, 6, 8, 8>, conv2d<4, 3, conv_options{.stride = 2, .output_padding = more}>> {};
constexpr int layers = layers_of<net>;
