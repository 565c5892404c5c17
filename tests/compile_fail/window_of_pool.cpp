// expect: a pooling's padding must be at most half its window, so that every window sees a pixel
// expect: every_window_sees_a_pixel<gpipe::max_pool<.*gpipe::feature_map<float, 3, 8, 5>, 2, 2, 0, false,
// expect: gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int padding = 2;  // a window at the corner would see nothing but padding
#else
constexpr int padding = 1;
#endif
struct net : model<input_image<float, 3, 8, 5>, max_pool<height_width{3, 2}, pool_options{.padding = {1, padding}}>> {};
constexpr int layers = layers_of<net>;
