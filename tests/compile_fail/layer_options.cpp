// expect: groups must divide its input channels and its output channels
// expect: groups_divide_channels<gpipe::conv2d<4, .*gpipe::feature_map<float, 6, 8, 8>, false,
// expect: gpipe::broken::position<0> ?>
// expect: same_padding needs a stride of 1 and a window that reaches over an odd number of pixels
// expect: same_padding_keeps_the_image<gpipe::conv2d<4, .*gpipe::feature_map<float, 6, 8, 8>, false,
// expect: output_padding must be at least 0 and below the stride of a conv_transpose2d, and conv2d has none
// expect: output_padding_is_below_the_stride<gpipe::conv_transpose2d<4, .*, 2, 2, false, gpipe::broken::position<0> ?>
// expect: output_padding_is_below_the_stride<gpipe::conv2d<4, .*, 1, 2, false, gpipe::broken::position<0> ?>
// expect: a window must be at least 1 and not larger than the image with its padding
// expect: window_is_in_the_image<gpipe::conv2d<4, .*gpipe::feature_map<float, 6, 8, 8>, 11, 10, false,
// expect: a pooling's padding must be at most half its window, so that every window sees a pixel
// expect: every_window_sees_a_pixel<gpipe::max_pool<.*gpipe::feature_map<float, 3, 8, 5>, 2, 2, 0, false,
// expect: its stride at least 0, which stands for that of the window
// expect: every_window_sees_a_pixel<gpipe::average_pool<.*gpipe::feature_map<float, 3, 8, 5>, 2, 0, -1, false,
// expect: attention_options..heads. must be at least 1 and divide the width of the input
// expect: heads_divide_width<gpipe::attention<.*width<8>, gpipe::broken::heads<3>, false>
// expect: attention_options..key_heads. must be at least 1 and divide .heads
// expect: key_heads_divide_heads<gpipe::cross_attention<.*broken::heads<4>, gpipe::broken::key_heads<3>, false>
// expect: attention_options..rotary. must be above 1 and turns pairs of elements, so the width of a head must be even
// expect: rotary_turns_pairs<gpipe::attention<.*head_width<3>, false>
// expect: dropout<P>: P must be a probability of at least 0 and less than 1
// errors: 11
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class... Items>
struct image : model<input_image<float, 6, 8, 8>, Items...> {};
template <class Item>
struct low_image : model<input_image<float, 3, 8, 5>, Item> {};
template <class... Items>
struct rows : model<input<float, 5, 8>, Items...> {};

#ifdef GPIPE_FAIL
constexpr int groups = 3;  // divides 6, but not 4
constexpr int kernel = 4;
constexpr int output_padding = 2;  // below the dilation, which is enough in PyTorch
constexpr int conv2d_padding = 1;
constexpr int window = 11;
constexpr int pool_padding = 2;  // a window at the corner would see nothing but padding
constexpr int pool_stride = -1;
constexpr int heads = 3, key_heads = 3, head_width = 3;
constexpr double dropped = 1.0;
#else
constexpr int groups = 2;
constexpr int kernel = 5;
constexpr int output_padding = 1;
constexpr int conv2d_padding = 0;
constexpr int window = 10;
constexpr int pool_padding = 1;
constexpr int pool_stride = 0;
constexpr int heads = 4, key_heads = 2, head_width = 4;
constexpr double dropped = 0.5;
#endif
constexpr int layers[] = {
    layers_of<image<conv2d<4, 3, conv_options{.groups = groups}>>>,
    layers_of<image<conv2d<4, kernel, conv_options{.padding = same_padding}>>>,
    layers_of<image<
        conv_transpose2d<4, 3, conv_options{.stride = {2, 3}, .dilation = 3, .output_padding = {output_padding, 0}}>>>,
    layers_of<image<conv2d<4, 3, conv_options{.stride = 2, .output_padding = conv2d_padding}>>>,
    layers_of<image<conv2d<4, window, conv_options{.padding = 1}>>>,
    layers_of<low_image<max_pool<height_width{3, 2}, pool_options{.padding = {1, pool_padding}}>>>,
    layers_of<low_image<average_pool<2, pool_options{.stride = {1, pool_stride}}>>>,
    layers_of<rows<attention<attention_options{.heads = heads}>>>,
    layers_of<rows<stash<"memory">, linear<8>, pop<"memory">,
                   cross_attention<attention_options{.heads = 4, .key_heads = key_heads}>>>,
    layers_of<rows<attention<attention_options{.heads = 2, .head_width = head_width, .rotary = 10000}>>>,
    layers_of<rows<dropout<dropped>, dropout<50>>>};
