#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/core/text/type_name.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/kind.hpp>

namespace gpipe::broken {

/// The condition of a promise. Clang prints its arguments, with the layer and its position, in the line of the error.
template <bool Holds, class... Where>
inline constexpr bool holds = Holds;

}  // namespace gpipe::broken

namespace gpipe::detail {

/// A layer may name the promise that an input breaks, before its `on<In>` exists. The error of a model then has the
/// position and the path of the layer, for which the promise has a last argument:
///
///     template <class In, class... Position>
///     using refusal = detail::first_broken<
///         detail::unless<(In::size % 2 == 0), broken::my_promise<my_layer, In, false, Position...>>, ...>;
///
/// `static_assert(detail::accepted<refusal<In>>)` in `on<In>` is for a layer without a model.
template <bool Holds, class Promise>
using unless = std::conditional_t<Holds, void, Promise>;

/// The first promise that does not hold; void if all do.
template <class... Promises>
struct first_promise {
  using type = void;
};
template <class First, class... Rest>
struct first_promise<First, Rest...> {
  using type = First;
};
template <class... Rest>
struct first_promise<void, Rest...> : first_promise<Rest...> {};
template <class... Promises>
using first_broken = typename first_promise<Promises...>::type;

template <class Refusal>
inline constexpr bool accepted = sizeof(Refusal) > 0;
template <>
inline constexpr bool accepted<void> = true;

/// The promise of a layer that this input breaks; void if there is none, or if the layer names none.
template <class Layer, class In, class... Position>
struct refusal_of {
  using type = void;
};
template <class Layer, class In, class... Position>
requires requires { typename Layer::template refusal<In, Position...>; }
struct refusal_of<Layer, In, Position...> {
  using type = typename Layer::template refusal<In, Position...>;
};
template <class Layer, class In>
concept refusing = !std::is_void_v<typename refusal_of<Layer, In>::type>;

template <class T, class From, std::size_t N>
constexpr std::array<T, N> to_array(const From (&list)[N]) {
  std::array<T, N> out{};
  for (std::size_t i = 0; i < N; ++i) out[i] = list[i];
  return out;
}
template <class T, std::size_t N>
constexpr std::array<T, N> to_array(const std::array<T, N>& list) {
  return list;
}

template <class Edge>
struct element_of_edge {
  using type = void;
};
template <floating_tensor Tensor>
struct element_of_edge<Tensor> {
  using type = typename Tensor::value_type;
};
template <class First, class... Rest>
struct element_of_edge<bundle<First, Rest...>> : element_of_edge<First> {};

// The type that a layer names, else the element type of its output, else of its input.
template <class On, class Input, class Output>
constexpr auto type_of_edges() {
  if constexpr (requires { typename On::value_type; }) return std::type_identity<typename On::value_type>{};
  else if constexpr (!std::is_void_v<typename element_of_edge<Output>::type>) return element_of_edge<Output>{};
  else return element_of_edge<Input>{};
}

/// The layer whose name errors and tables show. A wrapper such as `initialized` names another one by `shown_as`. A
/// layer with many options has a `shown_name` instead of its type's.
template <class Layer>
struct shown {
  using type = Layer;
};
template <class Layer>
requires requires { typename Layer::shown_as; }
struct shown<Layer> : shown<typename Layer::shown_as> {};

/// A layer bound to its input type: `Layer::on<Input>`, with a default for every member that it does not declare.
///
///     template <class In> struct on {                     required
///       using output = tensor<...>;                       the type of its output
///                                                         optional
///       static constexpr parameter parameters[] = {...};  trained tensors
///       static constexpr parameter state[] = {...};       not trained: `update_state` updates it from all partials
///       static constexpr buffer derived[] = {...};        made from the parameters by `refresh` after each commit
///       static constexpr buffer extras[] = {...};         written by forward, read by backward
///       static constexpr buffer backward_extras[] = {...};  written by backward's input part, read by its parameter
///                                                         part; by the latter alone if no input has a gradient
///       static constexpr buffer forward_workspace[] = {...};  for one call of forward, or of `predict`
///       static constexpr buffer workspace[] = {...};      for one call of backward's input part; of its parameter part
///                                                         if no input has a gradient; of `decode`
///       static constexpr keep keeps{.input = true};       its edges that backward reads again
///       static constexpr field fields[] = {...};          fields of the data that it reads
///       static constexpr std::int64_t input_below = 9;    integers of its input must be in [0, 9): tokens
///       static constexpr partial partials[] = {...};      numbers that forward returns for a micro-batch: a loss
///       static constexpr int predicted = 0;               the index of the extra that `predict` writes: a loss that
///                                                         also makes its own inputs, or some columns of them
///       static constexpr bool predicts = false;           of a loss whose input is no prediction: the layers before it
///                                                         with `predicted` make the columns, in their order
///       static constexpr row_blocks predicted_rows{37, 8};  of such a layer: the rows of a sample, and of one call
///       static constexpr work cost{...};                  operations per sample
///       static constexpr bool view = true;                its output is its input under another shape: no kernel
///       static constexpr bool mixes_tokens = true;        an output token depends on other tokens: for generation
///       static constexpr int kept_extras = 1;             of `decode`: its first extras, which later tokens read
///       static constexpr int source_input = 1;            of `decode`: the input from an encoder, of one sample
///       static constexpr int counts_tokens = 0;           the field with the number of valid tokens of a source
///       static constexpr int first_row = 100;             in a tie its parameters may be rows of larger ones, from
///                                                         this row on, as in a part of the layer that owns them
///       static constexpr int all_rows = 400;              the rows of these larger ones, for rules of first values
///       using value_type = float;                         the element type of its parameters; float for bf16
///                                                         functions, of a context c and operands a
///       void prepare(c, int samples)                      once: sets up the products of up to this number of samples
///       void refresh(c, a) noexcept                       writes `derived`: at the start and after each update, or
///                                                         before each kernel if the layers share its memory
///       void decode(c, a, int position)                   forward of one token after `position` others
///       void forward(c, a)                                and so on: examples/guide/kernels.md lists them
///     };
///
/// A layer with a matrix product has a `derived` buffer of `packed_size(rows, columns)` elements for each product.
template <class Layer, edge Input>
struct bound {
  using layer = Layer;
  using on = typename Layer::template on<Input>;
  using input = Input;
  using output = typename on::output;

  // sizeof: for nvcc an array without a bound is incomplete until its size is used.
  static constexpr auto parameters = [] {
    if constexpr (requires { sizeof(on::parameters); }) return detail::to_array<parameter>(on::parameters);
    else return std::array<parameter, 0>{};
  }();
  static constexpr auto state = [] {
    if constexpr (requires { sizeof(on::state); }) return detail::to_array<parameter>(on::state);
    else return std::array<parameter, 0>{};
  }();
  static constexpr auto derived = [] {
    if constexpr (requires { sizeof(on::derived); }) return detail::to_array<buffer>(on::derived);
    else return std::array<buffer, 0>{};
  }();
  static constexpr auto extras = [] {
    if constexpr (requires { sizeof(on::extras); }) return detail::to_array<buffer>(on::extras);
    else return std::array<buffer, 0>{};
  }();
  static constexpr auto backward_extras = [] {
    if constexpr (requires { sizeof(on::backward_extras); }) return detail::to_array<buffer>(on::backward_extras);
    else return std::array<buffer, 0>{};
  }();
  static constexpr auto forward_workspace = [] {
    if constexpr (requires { sizeof(on::forward_workspace); }) return detail::to_array<buffer>(on::forward_workspace);
    else return std::array<buffer, 0>{};
  }();
  static constexpr auto workspace = [] {
    if constexpr (requires { sizeof(on::workspace); }) return detail::to_array<buffer>(on::workspace);
    else return std::array<buffer, 0>{};
  }();
  static constexpr auto fields = [] {
    if constexpr (requires { sizeof(on::fields); }) return detail::to_array<field>(on::fields);
    else return std::array<field, 0>{};
  }();
  static constexpr auto partials = [] {
    if constexpr (requires { sizeof(on::partials); }) return detail::to_array<partial>(on::partials);
    else return std::array<partial, 0>{};
  }();
  static constexpr keep keeps = [] {
    if constexpr (requires { on::keeps; }) return on::keeps;
    else return keep{};
  }();
  static constexpr work cost = [] {
    if constexpr (requires { on::cost; }) return on::cost;
    else return work{};
  }();
  static constexpr std::int64_t input_below = [] {
    if constexpr (requires { on::input_below; }) return std::int64_t{on::input_below};
    else return std::int64_t{0};
  }();
  static constexpr int predicted = [] {
    if constexpr (requires { on::predicted; }) return on::predicted;
    else return -1;
  }();
  static constexpr bool view = [] {
    if constexpr (requires { on::view; }) return on::view;
    else return false;
  }();

  // The element types of its floating-point edges and of its parameters.
  using edge_type = typename decltype(detail::type_of_edges<on, input, output>())::type;
  using value_type = compute_type<edge_type>;

  template <int Index, class Edge = input>
  using in_type = typename part<Edge, Index>::value_type;
  template <int Index, class Edge = output>  // instantiated at its use: unknown for a layer with an error
  using out_type = typename part<Edge, Index>::value_type;
  template <int Index>
  using derived_type = element_of<derived[std::size_t{Index}].type>;
  template <int Index>
  using extra_type = element_of<extras[std::size_t{Index}].type>;
  template <int Index>
  using backward_extra_type = element_of<backward_extras[std::size_t{Index}].type>;
  template <int Index>
  using forward_workspace_type = element_of<forward_workspace[std::size_t{Index}].type>;
  template <int Index>
  using workspace_type = element_of<workspace[std::size_t{Index}].type>;

  static constexpr layer_lists lists = [] {
    layer_lists result{nullptr,
                       parameters.data(),
                       state.data(),
                       derived.data(),
                       extras.data(),
                       backward_extras.data(),
                       forward_workspace.data(),
                       workspace.data()};
    if constexpr (requires { typename on::kind; }) result.sizes = &on::sizes;
    if constexpr (requires { on::predicted_rows; }) result.predicted = on::predicted_rows;
    result.derived_count = static_cast<int>(derived.size());
    return result;
  }();

  static constexpr std::string_view name = [] {
    using shown_layer = typename shown<Layer>::type;
    if constexpr (requires { shown_layer::shown_name; })
      return std::string_view(shown_layer::shown_name.letters, shown_layer::shown_name.size);
    else return type_name<shown_layer>;
  }();
};

}  // namespace gpipe::detail
