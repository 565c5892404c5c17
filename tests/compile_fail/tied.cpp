// expect: a tied layer shares no parameter with the layers that are tied under that name before it
// expect: tied_layers_share_a_parameter<gpipe::broken::position<1>, gpipe::detail::letters<'a', 'p', 'a', 'r', 't'>
// expect: tied_layers_share_a_parameter<gpipe::broken::position<1, .*gpipe::detail::letters<'p', 'a', 'r', 't', 's'>
// expect: gpipe: a tied<Name, Layer> needs one layer, or a head in slices, and this is a list of several
// expect: tied_item_is_one_layer<gpipe::broken::position<1>
// expect: a tied<Name, Layer, Parameters...> names a parameter that the layer does not have
// expect: tied_layer_has_the_parameter<gpipe::broken::position<1>, gpipe::detail::letters<'w', 't', 'e'>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't', 's'>
// expect: layers tied under one name share the parameters of the same name, but this one has another shape or type here
// expect: or name only the parameters that they share: tied<Name, Layer, Parameters...>
// expect: tied_parameters_match<gpipe::broken::position<1>, gpipe::detail::letters<'w', 't', 'e'>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't'>, gpipe::broken::here<gpipe::tensor<float, 10, 8>
// expect: gpipe::broken::first<gpipe::tensor<float, 9, 8>
// expect: tied_parameters_match<gpipe::broken::position<2>, gpipe::detail::letters<'b', 'o', 't', 'h'>
// expect: gpipe::detail::letters<'w', 'e', 'i', 'g', 'h', 't'>, gpipe::broken::here<gpipe::tensor<float, 9, 8>
// expect: gpipe::broken::here<gpipe::tensor<double, 8>
// expect: gpipe::broken::first<gpipe::tensor<float, 8>
// expect: A slice of a head needs a first layer that has all of its rows
// expect: tied_parameters_match<gpipe::broken::position<1>, gpipe::detail::letters<'r', 'o', 'w', 's'>
// expect: gpipe::broken::here<gpipe::tensor<float, 9, 2>
// expect: gpipe::broken::first<gpipe::tensor<float, 4, 2>
// expect: tied_parameters_match<gpipe::broken::position<3
// expect: gpipe::broken::here<gpipe::tensor<float, 3, 8>
// expect: gpipe::broken::first<gpipe::tensor<float, 8, 8>
// errors: 9
#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

template <class T>
struct scaled {
  template <class In>
  struct on {
    using output = In;
    using value_type = T;
    static constexpr parameter parameters[] = {{"weight", {8}}};
  };
};
struct table {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {9, 2}}};
  };
};
struct part {
  template <class In>
  struct on {
    using output = In;
    static constexpr parameter parameters[] = {{"weight", {4, 2}}};
    static constexpr int first_row = 5;
  };
};
template <class... Items>
struct numbers : model<input<float, 8>, Items...> {};
template <class... Items>
struct tokens : model<input<std::int32_t, 4>, Items...> {};
using words = embedding<9, 8>;

#ifdef GPIPE_FAIL
constexpr int layers[] = {
    layers_of<tokens<tied<"apart", words>, tied<"apart", bias>>>,
    layers_of<tokens<tied<"parts", words>, tied<"parts", token_head<9, slices<2>>, "bias">>>,  // an embedding has none
    layers_of<numbers<tied<"both", linear<8>>, tied<"both", sequence<tied<"both", linear<8>>, relu>>>>,
    layers_of<tokens<tied<"wte", words>, tied<"wte", token_head<9>, "weights">>>,
    layers_of<tokens<tied<"wte", words>, tied<"wte", token_head<10>>>>,
    layers_of<numbers<tied<"both", linear<8>>, relu, tied<"both", linear<9>>>>,
    layers_of<numbers<tied<"w", scaled<float>>, tied<"w", scaled<double>>>>,
    layers_of<numbers<tied<"rows", part>, tied<"rows", table>>>,
    layers_of<tokens<tied<"wte", embedding<8, 8>>, tied<"wte", token_head<9, slices<3>>>>>};
#else
constexpr int layers[] = {
    layers_of<tokens<tied<"apart", words>, tied<"apart", linear<9>>>>,
    layers_of<tokens<tied<"parts", words>, tied<"parts", token_head<9, slices<2>>, "weight">>>,
    layers_of<numbers<tied<"both", linear<8>>, sequence<tied<"both", linear<8>>, relu>>>,
    layers_of<tokens<tied<"wte", words>, tied<"wte", token_head<9>, "weight">>>,
    layers_of<tokens<tied<"wte", words>, tied<"wte", token_head<9>>>>,  // the head has its own bias
    layers_of<numbers<tied<"both", linear<8>>, relu, tied<"both", linear<8>>>>,
    layers_of<numbers<tied<"w", scaled<float>>, tied<"w", scaled<float>>>>,
    layers_of<numbers<tied<"rows", table>, tied<"rows", part>>>,
    layers_of<tokens<tied<"wte", words>, tied<"wte", token_head<9, slices<3>>>>>};
#endif
