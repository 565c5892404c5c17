// expect: a window must be at least 1 and not larger than the image with its padding
// expect: window_is_in_the_image<gpipe::conv2d<4, .*gpipe::feature_map<float, 4, 8, 8>, 11, 10, false,
// expect: gpipe::broken::position<3, gpipe::broken::path<'c', 'e', 'l', 'l', '1', '.', '0', '.', '2'>, cell<4> ?>
// errors: 1
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int window = 11;
#else
constexpr int window = 3;
#endif
template <int C>
struct cell : sequence<relu, conv2d<C, 3, conv_options{.padding = 1}>, conv2d<C, window, conv_options{.padding = 1}>> {
};
struct net : model<input_image<float, 3, 8, 8>, conv2d<4, 1>, named<"cell1", repeat<2, cell<4>>>> {};
constexpr int layers = layers_of<net>;
