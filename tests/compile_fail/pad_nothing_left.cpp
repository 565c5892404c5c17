// expect: leaves no pixel of the image, Height x Width
// expect: padded_image_has_pixels<gpipe::pad<0, 1, -2, -6>, gpipe::feature_map<float, 3, 8, 8>, 0, 9, false>
// errors: 1
#include <gpipe/layer/shape/pad.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
constexpr int below = -6;
#else
constexpr int below = -5;
#endif
struct net : model<input_image<float, 3, 8, 8>, pad<0, 1, -2, below>> {};
constexpr int layers = layers_of<net>;
