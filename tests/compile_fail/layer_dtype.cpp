// expect: a layer has no .*on<Input>.* for the output of the layer before it
// expect: layer_accepts_input<gpipe::broken::position<1>, gpipe::embedding<16, 4>, gpipe::tensor<float, 8>, false>
// errors: 1
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/shape/reshape.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

// The embedding reads tokens: a float cannot flow into it.
#ifdef GPIPE_FAIL
struct net : model<input<float, 8>, linear<8>, embedding<16, 4>> {};
#else
struct net : model<input<std::int32_t, 8>, embedding<16, 4>> {};
#endif
static_assert(layers_of<net> > 0);
