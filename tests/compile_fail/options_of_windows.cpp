// expect: a convolution has its output channels, its window, and conv_options
// expect: convolution_has_options<gpipe::conv2d<3, .*4.*, gpipe::feature_map<float, 3, 8, 8>, false,
// expect: convolution_has_options<gpipe::conv1d<4, 3, 2>, gpipe::feature_map<float, 5, 1, 8>, false,
// expect: a pooling has its window and pool_options
// expect: pool_has_options<gpipe::max_pool<.*2.*2.*>, .*gpipe::broken::position<1> ?>
// errors: 3
#include <gpipe/layer/convolution/conv1d.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

// PyTorch's Conv2d has the input channels, too, and windows have a stride behind them.
#ifdef GPIPE_FAIL
struct image : model<input_image<float, 3, 8, 8>, conv2d<3, 4, 3>> {};
struct sequence_of_numbers : model<input<float, 8, 5>, conv1d<4, 3, 2>> {};
struct pooled : model<input_image<float, 3, 8, 8>, conv2d<4, 3>, max_pool<2, 2>> {};
#else
struct image : model<input_image<float, 3, 8, 8>, conv2d<4, 3>> {};
struct sequence_of_numbers : model<input<float, 8, 5>, conv1d<4, 3, conv_options{.stride = 2}>> {};
struct pooled : model<input_image<float, 3, 8, 8>, conv2d<4, 3>, max_pool<2, pool_options{.stride = 2}>> {};
#endif
constexpr int layers = layers_of<image> + layers_of<sequence_of_numbers> + layers_of<pooled>;
