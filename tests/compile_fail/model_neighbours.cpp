// expect: a layer has no .on<Input>. for the output of the layer before it: the layer takes floating point, and its input is of integers
// expect: layer_accepts_input<gpipe::broken::position<2>, gpipe::linear<4>, gpipe::tensor<int, 3>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct to_integers {
  template <class In>
  struct on {
#ifdef GPIPE_FAIL
    using output = tensor<std::int32_t, 3>;
#else
    using output = tensor<float, 3>;
#endif
  };
};
struct net : model<input<float, 8>, relu, to_integers, linear<4>, relu> {};
constexpr int layers = layers_of<net>;
