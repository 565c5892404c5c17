#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/share.hpp>

namespace gpipe {

namespace broken {

template <class Given, bool Holds>
struct name_is_a_text {
  static_assert(Holds, "gpipe: a name is a text in double quotes: stash<\"x\">, pop<\"x\">, named<\"x\", ...>");
};

}  // namespace broken

namespace detail {

/// A name as a template argument: the "x" of `stash<"x">`.
template <std::size_t N>
struct text {
  char letters[N]{};
  constexpr text(const char (&source)[N]) {
    for (std::size_t i = 0; i < N; ++i) letters[i] = source[i];
  }
  // A letter or a number: this is here for the error.
  template <class Given>
  requires std::is_arithmetic_v<Given>
  constexpr text(Given) { static_assert(sizeof(broken::name_is_a_text<Given, std::is_class_v<Given>>) > 0); }
};
template <class Given>
text(Given) -> text<1>;

template <class...>
struct list {};

// change: a model item
/// A list of items as one item: a scope.
template <class Items>
struct list_item {
  static constexpr bool is_scope = true;
  using items = Items;
};

/// A new name, as a type: nvcc finds no specialization for a text.
template <text From, text To>
struct new_name {
  static constexpr const char *old_text = From.letters, *new_text = To.letters;
};

/// The fields of a layer, one of them under another name.
template <class On, class Name, class = std::make_index_sequence<sizeof(On::fields) / sizeof(field)>>
struct renamed_fields;
template <class On, class Name, std::size_t... Index>
struct renamed_fields<On, Name, std::index_sequence<Index...>> {
  static constexpr field renamed(field changed) {
    if (std::string_view(changed.name) == Name::old_text) changed.name = Name::new_text;
    return changed;
  }
  static constexpr bool is_read = ((std::string_view(On::fields[Index].name) == Name::old_text) || ...);
  static_assert(is_read, "gpipe: with_field<From, To, Layer>: the layer reads no field From");
  static constexpr field fields[] = {renamed(On::fields[Index])...};
};

}  // namespace detail

/// The model's input: the field "inputs" of the data, one `tensor<T, N...>` per sample.
template <detail::element T, int... N>
struct input {
  using entering = tensor<T, N...>;
};

/// The model's input as an image: the field "inputs" has C H W numbers per sample, the channels of a pixel together.
template <detail::element T, int C, int H, int W>
struct input_image {
  using entering = feature_map<T, C, H, W>;
};

/// Items one after the other. Derive from it to name a custom block:
/// `struct block : sequence<layer_norm, linear<64>> {};`
template <class... Items>
struct sequence {
  using items = detail::list<Items...>;
};

/// The items repeated `Times` times, each time with their own parameters. A scope for the names of skips.
/// A body that returns the type of its input edge is instantiated once.
template <int Times, class... Items>
struct repeat {
  static_assert(Times >= 1, "gpipe: repeat<N, ...> needs N >= 1");
  static constexpr int times = Times;
  using items = detail::list<Items...>;
};

/// x + items(x): an anonymous stash and pop around the items. A scope for the names of skips.
template <class... Items>
struct residual {
  static constexpr bool adds_its_input = true;
  using items = detail::list<Items...>;
};

/// Items one after the other, as a `sequence`, and a scope for the names of skips: inside, the names of stashes outside
/// can be popped; a stash inside is not visible outside.
template <class... Items>
struct scope {
  static constexpr bool is_scope = true;
  using items = detail::list<Items...>;
};

namespace detail {

// One template in place of a specialization for one name, which nvcc does not find.
template <text... Name>
struct one_stash {
  static constexpr const char* stashed_as = (Name.letters, ...);
};
template <class... Each>
struct several_stashes {
  static_assert(sizeof...(Each) > 0, "gpipe: stash<> needs a name: stash<\"x\">");
  static constexpr int names = sizeof...(Each);
  using each = list<Each...>;
};

}  // namespace detail

/// Stores the edge under a name, for every later `pop` of that name in the scope. With several names each stores one of
/// the tensors on the edge, of which there must be the same number: `stash<"state", "earlier">`. The name "" is for one
/// that no later layer reads.
template <detail::text... Names>
struct stash
    : std::conditional_t<sizeof...(Names) == 1, detail::one_stash<Names...>, detail::several_stashes<stash<Names>...>> {
};

/// Appends the tensors stashed under the name to those on the edge: the next layer reads all of them.
template <detail::text Name>
struct pop {
  using popped = stash<Name>;
};

/// A further input of the model: appends the field of that name to the tensors on the edge, one `Tensor` per sample.
/// The next layer reads all of them, as `concat<>` does. It counts as a layer, which copies the field's rows, and may
/// be anywhere in the model.
///
///     model<input<float, 64>, linear<32>, from<"age", tensor<float, 1>>, concat<>, linear<10>, softmax_cross_entropy>
template <detail::text Name, class Tensor>
struct from {
  static_assert(detail::is_tensor<Tensor>, "gpipe: from<\"name\", tensor<...>> needs the tensor of one sample's row");
  static constexpr const char* read_from = Name.letters;
  using tensor = Tensor;
};

/// The tensors of a `pop` or a `from`, without the tensors on the edge: the model continues from a stash, or starts
/// again from a field of the data. Nothing is copied. The tensors left on the edge must have a stash that is read
/// later:
///
///     embedding<V, 64>, encoder, stash<"memory">, only<from<"target", tensor<std::int32_t, 32>>>, embedding<V, 64>,
///     residual<layer_norm, pop<"memory">, cross_attention<...>>, ...
template <class Item>
struct only {
  static_assert(
      requires { typename Item::popped; } || requires { Item::read_from; },
      "gpipe: only<Item> needs a pop<\"name\"> or a from<\"name\", tensor<...>>");
  using alone = Item;
};

/// A layer or a scope with a name, which its path has in place of its index. Several items are a scope, as in a
/// `sequence`. Arrays of numbers are read, saved and grouped by path, such as "h.0.ln_1.weight":
///
///     model<input<float, 8>, linear<8>, relu, linear<4>, ...>      0.weight  0.bias  2.weight  2.bias
///     named<"fc1", linear<8>>                                      fc1.weight
///     sequence<relu, linear<8>>, at 3                              3.1.weight
///     residual<layer_norm, linear<8>>, at 3                        3.0.weight  3.1.weight
///     residual<named<"ln_1", layer_norm>, named<"fc", ...>>        ln_1.weight  fc.weight
///     repeat<2, relu, linear<8>>, at 3                             3.0.1.weight  3.1.1.weight
///     repeat<2, linear<8>>, at 3                                   3.0.weight  3.1.weight
///     named<"", residual<linear<8>>>                               0.weight
///
/// Items of a list count from 0, all kinds of them, as in torch.nn.Sequential. A residual whose items all have names
/// adds nothing. In a repeat of a single item, the number of the repetition takes the place of the item's index. The
/// name "" adds nothing. A name has no dot, and is not a number. Two layers with parameters or state and one path do
/// not compile. A tied layer has its own path, for all its parameters.
template <detail::text Name, class... Items>
struct named {
  static constexpr const char* named_as = Name.letters;
  using items = detail::list<Items...>;
};

/// A further loss: reads the tensors on the edge, which go on to the next item unchanged. Its mean times
/// `Factor`, a number such as 0.4 or a whole number of thousandths such as 400, is added to the total that is trained,
/// and a result reports the mean under its name. The last item of a model is its main loss. All losses of a model must
/// have the same sum of weights in a step, because all gradients are divided by one sum:
///
///     total = mean of the main loss + sum over auxiliary losses of Factor times their mean
///
///     model<input<float, 64>, linear<10>, auxiliary<"early", 0.4, softmax_cross_entropy>, gelu, linear<10>,
///           softmax_cross_entropy>
template <detail::text Name, detail::share<1000> Factor, class Loss>
struct auxiliary {
  static_assert(double{Factor} > 0,
                "gpipe: auxiliary<Name, Factor, Loss> needs a Factor above 0, such as 0.4, or 400 thousandths");
  static constexpr const char* loss_named = Name.letters;
  static constexpr double factor = Factor;
  using loss = Loss;
};

/// The layer, reading the field `To` of the data instead of its field `From`:
/// `with_field<"labels", "genre", softmax_cross_entropy>`.
template <detail::text From, detail::text To, class Layer>
struct with_field {
  template <class In>
  struct on;
  template <class In>
  requires(requires { sizeof(typename Layer::template on<In>); }) struct on<In>
      : Layer::template on<In>, detail::renamed_fields<typename Layer::template on<In>, detail::new_name<From, To>> {
    using detail::renamed_fields<typename Layer::template on<In>, detail::new_name<From, To>>::fields;
  };
};

namespace detail {

template <class Layer, class Tie>
struct tied_item;

/// A tie by its name, and the parameters that it shares; none: all of the same name.
template <text Name, text... Parameters>
struct tie_named {
  static constexpr const char* tied_as = Name.letters;
  static constexpr std::array<const char*, sizeof...(Parameters)> named_parameters{Parameters.letters...};
  template <class Layer>
  using around = tied_item<Layer, tie_named>;
};

template <class Layer, class Tie>
struct tied_item : Tie {
  using layer = Layer;
};
/// A layer that is a list, such as a sliced head, marks its parts with parameters by `with_parts`: each of them is
/// tied.
template <class Layer, class Tie>
requires requires { typename Layer::template with_parts<Tie>; }
struct tied_item<Layer, Tie> : list_item<typename Layer::template with_parts<Tie>> {};

}  // namespace detail

/// The layer, with parameters that it shares with all layers tied under the name, anywhere in the model and of any
/// kind: all parameters of the same name, or only those that `Parameters` names. The first layer with a parameter owns
/// it. A layer owns its parameters of other names. Shapes of shared parameters must be the same.
///
///     tied<"words", embedding<V, D>>               weight
///     tied<"words", token_head<V>>                 weight, the embedding's | bias, its own
///     tied<"words", token_head<V>>                 weight, the embedding's | bias, the first head's
///     tied<"words", token_head<V>, "weight">       weight, the embedding's | bias, its own
///
/// A layer that is a part of a larger one shares its rows: slice i of a head in N slices the rows [i V / N, (i + 1) V /
/// N) of the embedding's weight. The layer with all rows comes first. Parts without an earlier larger layer own their
/// rows, as the biases here:
///
///     tied<"words", token_head<V, slices<N>>>      weight of each slice, rows of the embedding's | bias, its own
template <detail::text Name, class Layer, detail::text... Parameters>
struct tied : detail::tied_item<Layer, detail::tie_named<Name, Parameters...>> {};

}  // namespace gpipe

namespace gpipe::detail {

// assumes: half precision is bf16
/// The layer of an item such as `from<"age", tensor<float, 1>>`, a second input. It reads no edge; its output is a copy
/// of the field's rows. Next to an edge of bf16, floats are rounded to bf16, as the model's input is.
template <class Field, class Tensor, bool Rounds>
struct field_source {
  template <class In>
  struct on {
    using T = typename Tensor::value_type;
    using element = std::conditional_t<Rounds, bf16, T>;
    using output = with_element<Tensor, element>;
    static constexpr field fields[] = {{Field::read_from, output::size, dtype_of<T>}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.bytes = static_cast<std::int64_t>(sizeof(T) + sizeof(element)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      const T* rows = a.template field<0, T>();
      if constexpr (Rounds) c.each(a.samples() * elements, round{rows, a.out()});
      else c.copy(a.samples() * elements, rows, a.out());
    }

    struct round {
      const T* x;
      element* y;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = x[i]; }
    };
  };
};

/// The layer of the item `Item` next to the edge `Edge`.
template <class Item, class Edge>
using source_of = field_source<Item, typename Item::tensor,
                               std::is_same_v<typename Item::tensor::value_type, float> &&
                                   std::is_same_v<typename element_of_edge<Edge>::type, bf16>>;

}  // namespace gpipe::detail
