// expect: the extents of a layer's output must be at least 1
// expect: layer_output_has_elements<gpipe::broken::position<1>, gpipe::linear<0>, gpipe::tensor<float, 8>,
// expect: gpipe::tensor<float, 0>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, relu, linear<0>, linear<3>> {};
#else
struct net : model<input<float, 8>, relu, linear<1>, linear<3>> {};
#endif
constexpr int layers = layers_of<net>;
