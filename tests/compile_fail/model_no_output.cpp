// expect: a layer's .on<Input>. lacks .using output = tensor<...>. .or bundle<tensor<...>...>.
// expect: layer_names_output<gpipe::broken::position<1>, silent, gpipe::tensor<float, 8>, false>
// errors: 1
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

struct silent {
  template <class In>
  struct on {
#ifndef GPIPE_FAIL
    using output = In;
#endif
  };
};
struct net : model<input<float, 8>, relu, silent, relu> {};
constexpr int layers = layers_of<net>;
