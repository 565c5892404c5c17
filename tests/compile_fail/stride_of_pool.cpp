// expect: its stride at least 0, which stands for that of the window
// expect: every_window_sees_a_pixel<gpipe::average_pool<.*gpipe::feature_map<float, 3, 8, 5>, 2, 0, -1, false,
// expect: gpipe::broken::position<0> ?>
// errors: 1
#include <gpipe/layer/pooling/average_pool.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int stride = -1;
#else
constexpr int stride = 0;
#endif
struct net : model<input_image<float, 3, 8, 5>, average_pool<2, pool_options{.stride = {1, stride}}>> {};
constexpr int layers = layers_of<net>;
