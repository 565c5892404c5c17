// expect: an item of the model is not a layer: it lacks .template <class In> struct on.
// expect: item_is_a_layer<gpipe::broken::position<1>, no_layer, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct no_layer {
#ifndef GPIPE_FAIL
  template <class In>
  struct on {
    using output = In;
  };
#endif
};
struct net : model<input<float, 8>, relu, no_layer, relu> {};
constexpr int layers = layers_of<net>;
