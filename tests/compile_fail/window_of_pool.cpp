// expect: a window must be at least 1 and not larger than the picture with its padding
// expect: window_is_in_the_picture<gpipe::max_pool<.*gpipe::feature_map<float, 3, 8, 5>, 2, 9, false>
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
constexpr int slots = slots_of<net>;
