// expect: an item of the model is not a layer: it lacks .template <class In> struct on.
// expect: item_is_a_layer<gpipe::broken::position<1>, no_layer, false>
// expect: a layer's .on<Input>. lacks .using output = tensor<...>. .or bundle<tensor<...>...>.
// expect: layer_names_output<gpipe::broken::position<1>, silent, gpipe::tensor<float, 8>, false>
// expect: a layer has more Inputs or Outputs than gpipe::max_tensors_per_edge
// expect: layer_edges_are_narrow<gpipe::broken::position<0>, several, gpipe::tensor<float, 8>, gpipe::broken::inputs<1>,
// expect: gpipe::broken::outputs<5>, false>
// expect: the layer takes floating point, and its input is of integers
// expect: layer_accepts_input<gpipe::broken::position<2>, gpipe::linear<4>, gpipe::tensor<int, 3>, false>
// expect: a view .reshape. must keep the number of elements and their type
// expect: view_keeps_size<gpipe::broken::position<1>, flat, gpipe::tensor<float, 4, 4>, gpipe::tensor<float, 1[57]>,
// expect: gpipe::broken::elements_of_input<16>, gpipe::broken::elements_of_output<1[57]>, false>
// expect: no gradient flows back to a layer with parameters
// expect: gradient_flows_back<gpipe::broken::position<0>, gpipe::detail::letters<'l', 'i', 'n', 'e', 'a', 'r', '<',
// expect: '8', '>'>, false>
// expect: a pointwise function needs `template <class T> static T value.T x.`
// expect: pointwise_has_value<squared, false>
// errors: 7
#include <gpipe/layer.hpp>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class Output>
struct writing {
  template <class In>
  struct on {
    using output = Output;
  };
};
struct tokens : writing<tensor<std::int32_t, 8>> {};
using one = tensor<float, 8>;

#ifdef GPIPE_FAIL
struct no_layer {};
struct silent {
  template <class In>
  struct on {};
};
struct several : writing<bundle<one, one, one, one, one>> {};
struct converted : writing<tensor<std::int32_t, 3>> {};
constexpr int size = 15;
struct squared : pointwise<squared> {};
// Tokens may be made from data, but not from the output of a layer with parameters: it would never be trained.
struct untrained : model<input<float, 8>, linear<8>, tokens, embedding<16, 4>, softmax_cross_entropy> {};
#else
struct no_layer {
  template <class In>
  struct on {
    using output = In;
  };
};
struct silent : no_layer {};
struct several : writing<bundle<one, one, one, one>> {};
struct converted : writing<tensor<float, 3>> {};
constexpr int size = 16;
struct squared : pointwise<squared> {
  template <class T>
  static T value(T x) {
    return x * x;
  }
};
struct untrained : model<input<float, 8>, tokens, embedding<16, 4>, softmax_cross_entropy> {};
#endif
struct flat {
  template <class In>
  struct on {
    static constexpr bool view = true;
    using output = tensor<float, size>;
  };
};

template <class... Items>
struct net : model<input<float, 8>, Items...> {};
constexpr int layers[] = {layers_of<net<relu, no_layer, relu>>,
                          layers_of<net<relu, silent, relu>>,
                          layers_of<net<several>>,
                          layers_of<net<relu, converted, linear<4>, relu>>,
                          layers_of<model<input<float, 4, 4>, relu, flat, relu>>,
                          layers_of<untrained>,
                          layers_of<net<squared>>};
