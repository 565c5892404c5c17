// expect: a layer has more Inputs or Outputs than gpipe::max_tensors_per_edge
// expect: layer_edges_are_narrow<gpipe::broken::position<0>, five, gpipe::tensor<float, 8>, gpipe::broken::inputs<1>,
// expect: gpipe::broken::outputs<5>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

using one = tensor<float, 8>;
struct five {
  template <class In>
  struct on {
#ifdef GPIPE_FAIL
    using output = bundle<one, one, one, one, one>;
#else
    using output = bundle<one, one, one, one>;
#endif
  };
};
struct net : model<input<float, 8>, five> {};
constexpr int layers = layers_of<net>;
