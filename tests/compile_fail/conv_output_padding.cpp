// expect: output_padding must be at least 0 and below the stride of a conv_transpose2d, and conv2d has none
// expect: output_padding_is_below_the_stride<gpipe::conv_transpose2d<4, .*, 2, 2, false, gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/convolution/conv_transpose2d.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int more = 2;  // below the dilation, which is enough in PyTorch
#else
constexpr int more = 1;
#endif
struct net : model<input_image<float, 6, 8, 8>,
                   conv_transpose2d<4, 3, conv_options{.stride = {2, 3}, .dilation = 3, .output_padding = {more, 0}}>> {
};
constexpr int layers = layers_of<net>;
