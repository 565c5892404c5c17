#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gpipe/core/included.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/model/flow.hpp>
#include <gpipe/model/path_tree.hpp>

/// The promises of a model, one assertion per promise. The compiler prints the arguments of the failed struct: the
/// position, the layer, and its types.
namespace gpipe::broken {

// change: a compile-time check
/// Labels of numbers and texts. The position is the layer, counted from 0 after repeats are expanded; inside blocks,
/// also its surroundings, from the outside: its path, if an item has a name, the blocks (structs of the user that are
/// derived from a sequence), and the stash that a list of items stores next.
template <int, class... Around>
struct position {};
template <char...>
struct path {};
template <char...>
struct before_stash {};
template <int>
struct inputs {};
template <int>
struct outputs {};
template <int>
struct losses {};
template <char...>
struct stash_named {};
template <class... Stash>
struct stashes {};
template <class Tensor>
struct here {};
template <class Tensor>
struct first {};
template <std::size_t>
struct elements_of_input {};
template <std::size_t>
struct elements_of_output {};

/// Compilers drop a base class with an error: such a model remains as a type without members.
template <class Type, bool Holds>
struct type_is_a_model {
  static_assert((holds<Holds, Type>),
                "gpipe: a type is not a model: write `struct net : gpipe::model<gpipe::input<float, 64>, ...> {}`. If "
                "that is what you wrote, the error above it is in the arguments of a layer: a layer whose arguments "
                "all have defaults needs <>, as in batch_norm<>; linear<N> has its outputs alone, for the compiler "
                "deduces the inputs; options are types, and numbers are numbers");
};
template <class Position, class Item, bool Holds>
struct item_is_a_layer {
  static_assert((holds<Holds, Position, Item>),
                "gpipe: an item of the model is not a layer: it lacks `template <class In> struct on`");
};
template <class Position, class Item, bool Holds>
struct item_is_no_model {
  static_assert(
      (holds<Holds, Position, Item>),
      "gpipe: an item of the model is a model, whose input would be ignored: a block of layers is a sequence, "
      "`struct block : gpipe::sequence<gpipe::linear<64>, gpipe::relu> {}`");
};

/// The kind of input that a layer would accept instead of one that it does not.
enum class advice { none, numbers, tokens, image, tensor, single, several, nothing };

}  // namespace gpipe::broken

namespace gpipe::detail {

/// The similar input that a layer accepts. Computed only after a mistake.
template <class Layer, class Input>
constexpr broken::advice advice_for();

}  // namespace gpipe::detail

namespace gpipe::broken {

template <class Position, class Layer, class Input, bool Holds>
struct layer_accepts_input {
  static constexpr advice found = detail::advice_for<Layer, Input>();
  static_assert((holds < Holds || found != advice::none, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: change the shape or type "
                "of one of the two. Convolutions and poolings take feature maps: input_image<T, C, H, W> and "
                "as_feature_map<C, H, W> give one, flatten makes it a tensor");
  static_assert((holds < Holds || found != advice::numbers, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: the layer takes floating "
                "point, and its input is of integers. Make it float, as the model's input by input<float, ...>, or put "
                "embedding<Tokens, Width> before the layer");
  static_assert((holds < Holds || found != advice::tokens, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: the layer takes integers, "
                "such as tokens, and its input is of floating point. Declare the model's input as std::int32_t, and "
                "put the layer first");
  static_assert((holds < Holds || found != advice::image, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: the layer takes a feature "
                "map, and its input is a tensor. Begin the model with input_image<float, C, H, W>, or put "
                "as_feature_map<C, H, W> before the layer");
  static_assert((holds < Holds || found != advice::tensor, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: the layer takes a tensor, "
                "and its input is a feature map. Put flatten or global_average_pool before the layer");
  static_assert((holds < Holds || found != advice::single, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: the layer takes one tensor, "
                "and there are several. Put add, multiply or concat<> before the layer, which make them one");
  static_assert((holds < Holds || found != advice::several, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: the layer takes several "
                "tensors, and there is one. Put pop<\"name\">, with stash<\"name\"> at the other tensor, before the "
                "layer");
  static_assert((holds < Holds || found != advice::nothing, Position, Layer, Input >),
                "gpipe: a layer has no `on<Input>` for the output of the layer before it: there is no tensor, because "
                "that layer is a loss. Put the loss last, or write auxiliary<\"name\", 0.4, loss>");
};
template <class Position, class Layer, class Input, bool Holds>
struct layer_names_output {
  static_assert((holds<Holds, Position, Layer, Input>),
                "gpipe: a layer's `on<Input>` lacks `using output = tensor<...>` (or bundle<tensor<...>...>)");
};
template <class First, bool Holds>
struct model_begins_with_its_input {
  static_assert((holds<Holds, First>),
                "gpipe: a model's first argument is its input, and here it is another item: write "
                "model<input<float, 64>, ...> with the type and the extents of one sample's \"inputs\"");
};
template <class Input, bool Holds>
struct model_input_has_elements {
  static_assert((holds<Holds, Input>), "gpipe: the extents of a model's input must be at least 1");
};
template <class Position, class Layer, class Input, class Output, bool Holds>
struct layer_output_has_elements {
  static_assert((holds<Holds, Position, Layer, Input, Output>),
                "gpipe: the extents of a layer's output must be at least 1");
};
template <class Position, class Layer, class Input, class Inputs, class Outputs, bool Holds>
struct layer_edges_are_narrow {
  static_assert((holds<Holds, Position, Layer, Input, Inputs, Outputs>),
                "gpipe: a layer has more Inputs or Outputs than gpipe::max_tensors_per_edge");
};
template <class Position, class Layer, class Input, class Output, class InputSize, class OutputSize, bool Holds>
struct view_keeps_size {
  static_assert((holds<Holds, Position, Layer, InputSize, OutputSize>),
                "gpipe: a view (reshape) must keep the number of elements and their type");
};
template <class Position, class Input, class Output, bool Holds>
struct residual_returns_its_input {
  static_assert(
      (holds<Holds, Position, Input, Output>),
      "gpipe: a residual's items must return a tensor of their input's type, so that both can be added; these "
      "turn Input into Output");
};
template <class Position, class Stash, class Stashes, bool Holds>
struct pop_has_a_stash {
  static_assert((holds<Holds, Position, Stash, Stashes>),
                "gpipe: a pop has no stash of its name before it in its scope, where there are these Stashes");
};
template <class Position, class Stash, bool Holds>
struct stash_is_read {
  static_assert((holds<Holds, Position, Stash>), "gpipe: a stash has no pop of its name after it in its scope");
};

template <class Position, class Stash, class Edge, class Tensors, bool Holds>
struct stash_names_each_tensor {
  static_assert((holds<Holds, Position, Stash, Edge, Tensors>),
                "gpipe: a stash with several names needs one name for each tensor on the edge: give it as many, or one "
                "name for all of them");
};
template <class Position, class Item, bool Holds>
struct further_input_has_a_name {
  static_assert((holds<Holds, Position, Item>),
                "gpipe: from<\"inputs\", ...> has the name of the model's first input: choose another name for the "
                "further field");
};

template <class Position, class Loss, class Input, bool Holds>
struct auxiliary_is_a_loss {
  static_assert((holds<Holds, Position, Loss, Input>),
                "gpipe: auxiliary<Name, Factor, Loss> needs a loss: a layer with the partial \"loss\", without an "
                "output and without parameters, such as softmax_cross_entropy");
};
template <class Position, bool Holds>
struct losses_have_names {
  static_assert((holds<Holds, Position>),
                "gpipe: two losses of a model have one name, or one has the name of the last loss, \"main\": choose "
                "another name (an auxiliary loss in a repeat is several)");
};
template <class Losses, bool Holds>
struct losses_are_few {
  static_assert((holds<Holds, Losses>), "gpipe: a model has more auxiliary losses than gpipe::max_auxiliary_losses");
};

template <class Position, class Layer, bool Holds>
struct only_leaves_what_is_stashed {
  static_assert(
      (holds<Holds, Position, Layer>),
      "gpipe: an only<...> leaves a tensor behind that no layer reads: put a stash before it and a pop behind, or "
      "remove the layer that makes the tensor");
};
template <class Position, class Layer, bool Holds>
struct gradient_flows_back {
  static_assert(
      (holds<Holds, Position, Layer>),
      "gpipe: no gradient flows back to a layer with parameters, which would never be trained: every way from it "
      "to the loss leads through integers");
};
template <class Position, class Items, bool Holds>
struct tied_item_is_one_layer {
  static_assert(
      (holds<Holds, Position, Items>),
      "gpipe: a tied<Name, Layer> needs one layer, or a head in slices, and this is a list of several: tie each of the "
      "layers in it");
};
template <class Position, class Tie, class Parameter, class Here, class First, bool Holds>
struct tied_parameters_match {
  static_assert((holds<Holds, Position, Tie, Parameter, Here, First>),
                "gpipe: layers tied under one name share the parameters of the same name, but this one has another "
                "shape or type here than in the first of the layers: give both the same, or name only the parameters "
                "that they share: tied<Name, Layer, Parameters...>. A slice of a head needs a first layer that has all "
                "of its rows");
};
template <class Position, class Tie, class Layer, bool Holds>
struct tied_layers_share_a_parameter {
  static_assert((holds<Holds, Position, Tie, Layer>),
                "gpipe: a tied layer shares no parameter with the layers that are tied under that name before it: none "
                "has the same name");
};
template <class Position, class Tie, class Parameter, bool Holds>
struct tied_layer_has_the_parameter {
  static_assert((holds<Holds, Position, Tie, Parameter>),
                "gpipe: a tied<Name, Layer, Parameters...> names a parameter that the layer does not have");
};

template <class Name, bool Holds>
struct name_is_a_part_of_a_path {
  static_assert((holds<Holds, Name>),
                "gpipe: the Name of a named<...> contains a dot or is a number, so that a path with it would have two "
                "meanings");
};
template <class Position, class Other, class Path, bool Holds>
struct paths_differ {
  static_assert((holds<Holds, Position, Other, Path>),
                "gpipe: two layers with parameters or state have the same Path: give one of them another name by "
                "named<\"name\", ...>");
};

}  // namespace gpipe::broken

namespace gpipe::detail {

/// A text as a type that all compilers print.
template <char...>
struct letters {};

/// The text that a lambda returns, as a type: `letters<'r', 'e', 'l', 'u'>`.
template <template <char...> class Letters, class Text, std::size_t... Indices>
constexpr auto spell(std::index_sequence<Indices...>) {
  return Letters<Text{}()[Indices]...>{};
}
template <template <char...> class Letters, class Text>
constexpr auto spelled(Text) {
  return spell<Letters, Text>(std::make_index_sequence<Text{}().size()>{});
}

/// The shape and the type of a parameter.
struct typed_shape {
  shape extents{};
  dtype type = dtype::float32;
};
/// The shape that a lambda returns, as a tensor with a label.
template <template <class> class Label, class Found, std::size_t... Indices>
constexpr auto label_tensor(std::index_sequence<Indices...>) {
  return Label<tensor<element_of<Found{}().type>, Found{}().extents.extents[Indices]...>>{};
}
template <template <class> class Label, class Found>
constexpr auto labelled_tensor(Found) {
  return label_tensor<Label, Found>(std::make_index_sequence<std::size_t{Found{}().extents.rank}>{});
}

// The position of a layer, in words. Only a mistake computes it.

template <class Item>
inline constexpr bool is_plain_item = false;
template <class... Items>
inline constexpr bool is_plain_item<sequence<Items...>> = true;
template <class... Items>
inline constexpr bool is_plain_item<scope<Items...>> = true;
template <class... Items>
inline constexpr bool is_plain_item<residual<Items...>> = true;
template <int Times, class... Items>
inline constexpr bool is_plain_item<repeat<Times, Items...>> = true;
template <text Name, class... Items>
inline constexpr bool is_plain_item<named<Name, Items...>> = true;

template <class Item>
constexpr int layers_of_item() {
  path_writer count(nullptr);
  write_paths<Item>(count, {});
  return count.layers();
}
template <class Item>
constexpr int layers_of_one() {  // of a repeat's repetitions
  if constexpr (requires { Item::times; }) return layers_of_item<Item>() / Item::times;
  else return layers_of_item<Item>();
}

/// The first stash with one name, unless an `only` comes before it.
constexpr auto next_stash(list<>) { return list<>{}; }
template <class First, class... Rest>
constexpr auto next_stash(list<First, Rest...>) {
  if constexpr (requires { First::stashed_as; }) {
    constexpr auto name = [] { return std::string_view(First::stashed_as); };
    return list<decltype(spelled<broken::before_stash>(name))>{};
  } else if constexpr (requires { typename First::alone; }) {
    return list<>{};
  } else {
    return next_stash(list<Rest...>{});
  }
}

template <class... As, class... Bs>
constexpr auto both(list<As...>, list<Bs...>) {
  return list<As..., Bs...>{};
}

/// The blocks around a layer and the next stashes after it, from the outside.
template <bool Inside, int Layer>
constexpr auto around_layer(list<>) {
  return list<>{};
}
template <bool Inside, int Layer, class First, class... Rest>
constexpr auto around_layer(list<First, Rest...>) {
  constexpr int layers = layers_of_item<First>();
  if constexpr (Layer >= layers) {
    return around_layer<Inside, Layer - layers>(list<Rest...>{});
  } else {
    using stashes = std::conditional_t<Inside, decltype(next_stash(list<Rest...>{})), list<>>;
    if constexpr (requires { typename First::items; }) {
      using block = std::conditional_t<is_plain_item<First>, list<>, list<First>>;
      return both(both(stashes{}, block{}),
                  around_layer<true, Layer % layers_of_one<First>()>(typename First::items{}));
    } else {
      return stashes{};
    }
  }
}

template <template <char...> class As, class Items, int Layer, std::size_t... Indices>
constexpr auto letters_of_path(std::index_sequence<Indices...>) {
  constexpr auto path = [] {
    std::array<char, sizeof...(Indices) + 1> text{};
    write_path(path_tree<Items>.data(), Layer, text.data());
    return text;
  }();
  return As<path[Indices]...>{};
}
template <class Items, int Layer>
constexpr bool is_named() {
  bool named = false;
  if (Layer < path_tree<Items>[0].layers)
    for_each_path_part(path_tree<Items>.data(), Layer, [&](const char* name, int) { named = named || *name != 0; });
  return named;
}

template <int Layer, class... Around>
constexpr auto position_with(list<Around...>) {
  return broken::position<Layer, Around...>{};
}
template <class Items, int Layer>
constexpr auto position_in() {
  using around = decltype(around_layer<false, Layer>(Items{}));
  if constexpr (is_named<Items, Layer>()) {
    constexpr std::size_t length = write_path(path_tree<Items>.data(), Layer, nullptr);
    using path = decltype(letters_of_path<broken::path, Items, Layer>(std::make_index_sequence<length>{}));
    return position_with<Layer>(both(list<path>{}, around{}));
  } else {
    return position_with<Layer>(around{});
  }
}
/// The position of a layer of a model with these items.
template <class Items, int Layer>
using position_of = decltype(position_in<Items, Layer>());

/// A broken promise with the position in these items.
template <class Promise, class Items>
struct placed;
template <template <class, class, bool> class Promise, int Layer, class A, class Items>
struct placed<Promise<broken::position<Layer>, A, false>, Items> {
  using type = Promise<position_of<Items, Layer>, A, false>;
};
template <template <class, class, class, bool> class Promise, int Layer, class A, class B, class Items>
struct placed<Promise<broken::position<Layer>, A, B, false>, Items> {
  using type = Promise<position_of<Items, Layer>, A, B, false>;
};
template <template <class, class, class, class, bool> class Promise, int Layer, class A, class B, class C, class Items>
struct placed<Promise<broken::position<Layer>, A, B, C, false>, Items> {
  using type = Promise<position_of<Items, Layer>, A, B, C, false>;
};
template <template <class, class, class, class, class, bool> class Promise, int Layer, class A, class B, class C,
          class D, class Items>
struct placed<Promise<broken::position<Layer>, A, B, C, D, false>, Items> {
  using type = Promise<position_of<Items, Layer>, A, B, C, D, false>;
};
template <template <class, class, class, class, class, class, bool> class Promise, int Layer, class A, class B, class C,
          class D, class E, class Items>
struct placed<Promise<broken::position<Layer>, A, B, C, D, E, false>, Items> {
  using type = Promise<position_of<Items, Layer>, A, B, C, D, E, false>;
};
// A layer's own promises have the position after the other arguments.
template <template <class, class, bool, class...> class Promise, int Layer, class A, class B, class Items>
struct placed<Promise<A, B, false, broken::position<Layer>>, Items> {
  using type = Promise<A, B, false, position_of<Items, Layer>>;
};
template <template <class, class, int, int, bool, class...> class Promise, int Layer, class A, class B, int C, int D,
          class Items>
struct placed<Promise<A, B, C, D, false, broken::position<Layer>>, Items> {
  using type = Promise<A, B, C, D, false, position_of<Items, Layer>>;
};
template <template <class, class, int, int, int, bool, class...> class Promise, int Layer, class A, class B, int C,
          int D, int E, class Items>
struct placed<Promise<A, B, C, D, E, false, broken::position<Layer>>, Items> {
  using type = Promise<A, B, C, D, E, false, position_of<Items, Layer>>;
};

/// Reports the broken promise of a model's flow, if there is one. It takes only types: overload resolution for
/// an argument would instantiate the promise.
template <class Items, class Flow>
struct mistake {
  static constexpr bool reported = false;
};
template <class Items, class Promise>
struct mistake<Items, unknown<Promise>> {
  static constexpr bool reported = asserted<typename placed<Promise, Items>::type>::value;
};
template <class Items>
struct mistake<Items, unknown<void>> {
  static constexpr bool reported = true;
};

template <class Model>
concept modelled = requires {
  typename Model::entering;
  typename Model::items;
};

template <template <class> class>
struct has_on {};
template <class Item>
concept bindable = requires {
  typename has_on<Item::template on>;
};
template <class Layer, class Input>
concept accepting = requires {
  sizeof(typename Layer::template on<Input>);
};

/// Whether a layer accepts another input, or refuses no more than its extents.
template <class Layer, class Input>
constexpr bool would_accept() {
  if constexpr (refusing<Layer, Input>) return true;
  else return accepting<Layer, Input>;
}
template <class Input>
struct similar {};
template <class T, int... N>
struct similar<tensor<T, N...>> {
  using numbers = tensor<float, N...>;
  using tokens = tensor<std::int32_t, N...>;
  using pair = bundle<tensor<T, N...>, tensor<T, N...>>;
};
template <class T, int C, int H, int W>
struct similar<feature_map<T, C, H, W>> {
  using numbers = feature_map<float, C, H, W>;
  using pair = bundle<feature_map<T, C, H, W>, feature_map<T, C, H, W>>;
};
template <class Input>
struct image_of {
  using type = feature_map<float, 20160, 64, 64>;  // channels that most numbers of groups divide
};
template <class T, int C, int H, int W>
struct image_of<tensor<T, C, H, W>> {
  using type = feature_map<T, C, H, W>;
};

template <class Layer, class Input>
constexpr broken::advice advice_for() {
  using broken::advice;
  if constexpr (std::is_same_v<Input, bundle<>>) {
    return advice::nothing;
  } else if constexpr (!is_tensor<Input>) {
    return would_accept<Layer, part<Input, 0>>() ? advice::single : advice::none;
  } else {
    using value_type = typename Input::value_type;
    if constexpr (!is_floating(dtype_of<value_type>)) {
      return would_accept<Layer, typename similar<Input>::numbers>() ? advice::numbers : advice::none;
    } else {
      if constexpr (requires { typename similar<Input>::tokens; })
        if constexpr (would_accept<Layer, typename similar<Input>::tokens>()) return advice::tokens;
      if constexpr (would_accept<Layer, typename similar<Input>::pair>()) return advice::several;
      else if constexpr (is_feature_map<Input>)
        return would_accept<Layer, tensor<value_type, static_cast<int>(Input::size)>>() ? advice::tensor : advice::none;
      else return would_accept<Layer, typename image_of<Input>::type>() ? advice::image : advice::none;
    }
  }
}

template <class Layer, class Input>
concept naming_output = edge<typename Layer::template on<Input>::output>;

/// The input's type; void after an error.
template <class Input>
constexpr auto entering_of() {
  if constexpr (requires { typename Input::entering; }) {
    return std::type_identity<typename Input::entering>{};
  } else {
    static_cast<void>(asserted<broken::model_begins_with_its_input<Input, false>>{});
    return std::type_identity<void>{};
  }
}

template <class Edge>
inline constexpr std::size_t edge_size = 0;
template <class... Tensors>
inline constexpr std::size_t edge_size<bundle<Tensors...>> = (std::size_t{0} + ... + Tensors::size);
template <class Tensor>
requires is_tensor<Tensor>
inline constexpr std::size_t edge_size<Tensor> = Tensor::size;

template <int Position, class Layer, class Input, class On = typename Layer::template on<Input>>
constexpr bool keeps_size() {
  if constexpr (requires { requires On::view; }) {
    if constexpr (is_tensor<Input> && is_tensor<typename On::output>)
      return Input::size == On::output::size &&
             std::is_same_v<typename Input::value_type, typename On::output::value_type>;
    else return false;
  } else {
    return true;
  }
}

}  // namespace gpipe::detail
