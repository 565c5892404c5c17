#pragma once

#include <string_view>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/model/flow.hpp>

/// What a model promises, one assertion a promise. The compiler prints the arguments of the struct that failed: the
/// position (counting layers from 0, repeats expanded), the layer, and what it was given.
namespace gpipe::broken {

template <int Position, class Item, bool Holds>
struct item_is_a_layer {
  static_assert(Holds, "gpipe: an item of the model is no layer: it lacks `template <class In> struct on`");
};
template <int Position, class Layer, class Input, bool Holds>
struct layer_accepts_input {
  static_assert(Holds, "gpipe: a layer has no `on<Input>` for what the layer before it writes: their shapes or types "
                       "do not fit together");
};
template <int Position, class Layer, class Input, bool Holds>
struct layer_names_output {
  static_assert(Holds, "gpipe: a layer's `on<Input>` lacks `using output = tensor<...>` (or bundle<tensor<...>...>)");
};
template <class Input, bool Holds>
struct model_input_has_elements {
  static_assert(Holds, "gpipe: the extents of a model's input are at least 1");
};
template <int Position, class Layer, class Input, class Output, bool Holds>
struct layer_output_has_elements {
  static_assert(Holds, "gpipe: the extents of what a layer writes are at least 1");
};
template <int Position, class Layer, class Input, int Inputs, int Outputs, bool Holds>
struct layer_edges_are_narrow {
  static_assert(Holds, "gpipe: a layer reads or writes more tensors than gpipe::max_edge");
};
template <int Position, class Layer, class Input, class Output, bool Holds>
struct view_keeps_size {
  static_assert(Holds, "gpipe: a view (reshape) must keep the number of elements and their type");
};
template <int Position, class Input, class Output, bool Holds>
struct residual_returns_its_input {
  static_assert(Holds, "gpipe: a residual's items must return the tensor that they were given, so that both can be "
                       "added; here they turn Input into Output");
};
template <int Position, class Stash, bool Holds>
struct pop_has_a_stash {
  static_assert(Holds, "gpipe: a pop reads a name that nobody has stashed before it in its scope");
};
template <int Position, class Stash, bool Holds>
struct stash_is_read {
  static_assert(Holds, "gpipe: a stash is read by no pop in its scope");
};

template <int Position, class Tie, bool Holds>
struct tied_parameters_are_alike {
  static_assert(Holds, "gpipe: a tied layer's parameters have not the shapes and types of the first one tied under "
                       "that name");
};

}  // namespace gpipe::broken

namespace gpipe::detail {

/// A text that all compilers print.
template <char...>
struct letters {};

// The assertion fires inside a function: clang drags a tail of further errors behind a class that failed one.
template <class Promise>
constexpr auto assert_that() {
  static_cast<void>(sizeof(Promise));
  return std::true_type{};  // a type that does not depend on the promise: who asks stays sound, and silent
}
template <class Promise>
using asserted = decltype(assert_that<Promise>());

template <template <class> class>
struct has_on {};
template <class Item>
concept bindable = requires { typename has_on<Item::template on>; };
template <class Layer, class Input>
concept accepting = requires { sizeof(typename Layer::template on<Input>); };
template <class Layer, class Input>
concept naming_output = edge<typename Layer::template on<Input>::output>;

template <int Position, class Layer, class Input, class On = typename Layer::template on<Input>>
constexpr bool keeps_size() {
  if constexpr (requires { requires On::view; }) {
    if constexpr (is_tensor<Input> && is_tensor<typename On::output>)
      return Input::size == On::output::size &&
             std::is_same_v<typename Input::value_type, typename On::output::value_type>;
    else
      return false;
  } else {
    return true;
  }
}

}  // namespace gpipe::detail
