#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <gpipe/layer/loss/auxiliary_loss.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/model/structure/items.hpp>

namespace gpipe::detail {

// Walks the typed items once. Each step has the flow after it (`after`), the number of types, layers, ... that it adds
// (`counts`), and a function that writes them to a sink (`emit`): the arrays of the network, or a table of kernels.

template <int Position, class Flow, class Items>
struct typed_sequence;

// change: a model item
/// One item at layer `Position` (of its first repetition) with its incoming flow.
template <int Position, class Item, class Flow>
struct typed;

template <class Promise = void>
struct mistaken {
  using after = unknown<Promise>;
  static constexpr extent_counts counts{};
  template <class Sink>
  static constexpr void list_into(Sink&) {}
};

template <class Typed>
inline constexpr bool is_mistaken = false;
template <class Promise>
inline constexpr bool is_mistaken<mistaken<Promise>> = true;

template <int Position, class Item, class Promise>
struct typed<Position, Item, unknown<Promise>> : mistaken<Promise> {};

template <class Layer, class Edge, class... Skips>
struct typed_layer {
  using layer = bound<Layer, Edge>;
  using after = flow<typename layer::output, Skips...>;
  static constexpr extent_counts counts{
      1, 1, parts<typename layer::output>, parts<Edge>, static_cast<int>(layer::fields.size()), 0};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.template layer<layer>();
  }
};

// A layer with shared parameters.
template <class Typed, class Tied>
struct typed_tied : Typed {
  static constexpr extent_counts counts =
      Typed::counts + extent_counts{.ties = static_cast<int>(Typed::layer::parameters.size())};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.template tied_layer<Tied, typename Typed::layer>();
  }
};
template <class Promise, class Tied>
struct typed_tied<mistaken<Promise>, Tied> : mistaken<Promise> {};

template <int Position, class Layer, class Edge, class... Skips>
constexpr auto checked_layer() {
  using at = broken::position<Position>;
  if constexpr (!bindable<Layer>) {
    return mistaken<broken::item_is_a_layer<at, Layer, false>>{};
  } else if constexpr (!has_extents<Edge>) {  // the outputs of layers have been checked
    static_cast<void>(asserted<broken::model_input_has_elements<Edge, false>>{});
    return mistaken<>{};
  } else if constexpr (refusing<Layer, Edge>) {
    return mistaken<typename refusal_of<Layer, Edge, at>::type>{};
  } else if constexpr (!accepting<Layer, Edge>) {
    return mistaken<broken::layer_accepts_input<at, Layer, Edge, false>>{};
  } else if constexpr (!naming_output<Layer, Edge>) {
    return mistaken<broken::layer_names_output<at, Layer, Edge, false>>{};
  } else if constexpr (!has_extents<typename Layer::template on<Edge>::output>) {
    using output = typename Layer::template on<Edge>::output;
    return mistaken<broken::layer_output_has_elements<at, Layer, Edge, output, false>>{};
  } else if constexpr (constexpr int in = parts<Edge>, out = parts<typename Layer::template on<Edge>::output>;
                       in > max_tensors_per_edge || out > max_tensors_per_edge) {
    return mistaken<broken::layer_edges_are_narrow<at, Layer, Edge, broken::inputs<in>, broken::outputs<out>, false>>{};
  } else if constexpr (!keeps_size<Position, Layer, Edge>()) {
    using output = typename Layer::template on<Edge>::output;
    return mistaken<broken::view_keeps_size<at, Layer, Edge, output, broken::elements_of_input<edge_size<Edge>>,
                                            broken::elements_of_output<edge_size<output>>, false>>{};
  } else {
    return typed_layer<Layer, Edge, Skips...>{};
  }
}

// stash and pop add no layer: a stash names the values on the edge; a pop appends them to those on the edge.
template <class Item, class Edge, class... Skips>
struct typed_stash {
  using after = flow<Edge, skip<Item, Edge, false>, Skips...>;
  static constexpr extent_counts counts{0, 0, 0, 0, 0, 1};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.stash();
  }
};

// A stash with a name for each tensor. The skip of the first is the innermost, so it is stored last. A tensor
// with the name "" needs no reader.
template <class Item, class Edge, class Names, class Parts, class Skips>
struct typed_stashes;
template <class Item, class Edge, class... Names, class... Parts, class... Skips>
struct typed_stashes<Item, Edge, list<Names...>, bundle<Parts...>, list<Skips...>> {
  using after = flow<Edge, skip<Names, Parts, *Names::stashed_as == 0>..., Skips...>;
  static constexpr extent_counts counts{0, 0, 0, 0, 0, Item::names};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    for (int i = Item::names - 1; i >= 0; --i) sink.stash(i);
  }
};

template <int Position, class Item, class Edge, class... Skips>
constexpr auto checked_stashes() {
  if constexpr (constexpr int tensors = parts<Edge>; tensors == Item::names) {
    return typed_stashes<Item, Edge, typename Item::each, typename edge_parts<Edge>::type, list<Skips...>>{};
  } else {
    return mistaken<
        broken::stash_names_each_tensor<broken::position<Position>, Item, Edge, broken::outputs<tensors>, false>>{};
  }
}

template <class Stash, class Edge, class... Skips>
struct typed_pop {
  using found = find_skip<Stash, 0, list<>, Skips...>;
  using after = typename found::template after<Edge>;
  static constexpr extent_counts counts{};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.pop(found::depth);
  }
};

// The stashes that a pop can name, as letters, which all compilers print.
template <class... Found>
constexpr auto names_of(list<Found...>) {
  return broken::stashes<Found...>{};
}
template <class... Found, class First, class... Rest>
constexpr auto names_of(list<Found...>, First, Rest... rest) {
  return names_of(list<Found...>{}, rest...);
}
template <class... Found, class Stash, class Stashed, bool Read, class... Rest>
constexpr auto names_of(list<Found...>, skip<Stash, Stashed, Read>, Rest... rest) {
  if constexpr (std::is_same_v<Stash, residual_stash>) {
    return names_of(list<Found...>{}, rest...);
  } else {
    constexpr auto name = [] { return std::string_view(Stash::stashed_as); };
    return names_of(list<decltype(spelled<broken::stash_named>(name)), Found...>{}, rest...);
  }
}

template <int Position, class Stash, class Edge, class... Skips>
constexpr auto checked_pop() {
  if constexpr (find_skip<Stash, 0, list<>, Skips...>::found) {
    return typed_pop<Stash, Edge, Skips...>{};
  } else {
    using visible = decltype(names_of(list<>{}, Skips{}...));
    return mistaken<broken::pop_has_a_stash<broken::position<Position>, Stash, visible, false>>{};
  }
}

// A further input: the edge is set aside while the source, which has no input, makes the field's tensor, in the
// precision of the edges around it.
template <class Item, class Around, class Edge, class... Skips>
struct typed_from {
  using layer = bound<source_of<Item, Around>, bundle<>>;
  using after = flow<joined_edges<Edge, typename layer::output>, Skips...>;
  static constexpr extent_counts counts{1, 1, 1, 0, 1, 1};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.stash();
    sink.template layer<layer>();
    sink.rejoin();
  }
};

template <int Position, class Item, class Around, class Edge, class... Skips>
constexpr auto checked_from() {
  using at = broken::position<Position>;
  if constexpr (constexpr int tensors = parts<Edge> + 1; tensors > max_tensors_per_edge) {
    return mistaken<
        broken::layer_edges_are_narrow<at, Item, Edge, broken::inputs<parts<Edge>>, broken::outputs<tensors>, false>>{};
  } else if constexpr (std::string_view(Item::read_from) == "inputs") {
    return mistaken<broken::further_input_has_a_name<at, Item, false>>{};
  } else {
    return typed_from<Item, Around, Edge, Skips...>{};
  }
}

// The tensors of one item, in place of the edge.
template <class Brings>
struct typed_only : Brings {
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.leave_edge();
    Brings::list_into(sink);
  }
};
template <class Promise>
struct typed_only<mistaken<Promise>> : mistaken<Promise> {};

template <int Position, class Item, class Edge, class... Skips>
constexpr auto brought() {
  if constexpr (requires { typename Item::popped; })
    return checked_pop<Position, typename Item::popped, bundle<>, Skips...>();
  else return checked_from<Position, Item, Edge, bundle<>, Skips...>();
}

// An auxiliary loss: the edge is set aside while the loss reads it.
template <class Typed, class Edge, class... Skips>
struct typed_auxiliary : Typed {
  using after = flow<Edge, Skips...>;
  static constexpr extent_counts counts = Typed::counts + extent_counts{.skips = 1};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    sink.stash();
    sink.template layer<typename Typed::layer>();
    sink.rejoin();
  }
};
template <class Promise, class Edge, class... Skips>
struct typed_auxiliary<mistaken<Promise>, Edge, Skips...> : mistaken<Promise> {};

template <class Bound>
constexpr bool is_plain_loss() {
  bool loss = false;
  for (const partial& p : Bound::partials) loss = loss || std::string_view(p.name) == "loss";
  return loss && Bound::parameters.empty() && parts<typename Bound::output> == 0;
}

template <int Position, class Item, class Edge, class... Skips>
constexpr auto checked_auxiliary() {
  using reader = decltype(checked_layer<Position, auxiliary_loss<Item, typename Item::loss>, Edge, Skips...>());
  if constexpr (is_mistaken<reader>) {
    return reader{};
  } else if constexpr (!is_plain_loss<typename reader::layer>()) {
    return mistaken<broken::auxiliary_is_a_loss<broken::position<Position>, typename Item::loss, Edge, false>>{};
  } else {
    return typed_auxiliary<reader, Edge, Skips...>{};
  }
}

// The end of a scope: stashes inside are not visible outside.
template <int Position, class After>
struct left_scope {
  using after = After;
};
template <int Position, class Edge, class... Skips>
struct left_scope<Position, flow<Edge, Skips...>> {
  using scope = leave_scope<Edge, Skips...>;
  using unread = typename scope::unread;
  using after = std::conditional_t<std::is_void_v<unread>, typename scope::after,
                                   unknown<broken::stash_is_read<broken::position<Position>, unread, false>>>;
};

template <int Position, class Flow, class Items>
struct typed_scope;
template <int Position, class Edge, class... Skips, class Items>
struct typed_scope<Position, flow<Edge, Skips...>, Items> {
  using inner = typed_sequence<Position, flow<Edge, scope_mark, Skips...>, Items>;
  static constexpr extent_counts counts = inner::counts;
  using after = typename left_scope<Position, typename inner::after>::after;
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    const int depth = sink.enter();
    inner::list_into(sink);
    sink.leave(depth);
  }
};

// repeat: a body that returns its input flow is walked once and counted `Times` times; a body that changes the flow is
// walked again for the remaining repetitions.
template <class First, int Times>
struct steady_repeat {
  using after = typename First::after;
  static constexpr extent_counts counts{
      First::counts.types,  Times* First::counts.layers, Times* First::counts.values, Times* First::counts.reads,
      First::counts.fields, First::counts.skips,         Times* First::counts.ties};
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    const int row = sink.next_type();
    for (int i = 0; i < Times; ++i) {
      sink.back_to_type(row);
      First::list_into(sink);
    }
  }
};

template <class First, class Rest>
struct followed_by {
  using after = typename Rest::after;
  static constexpr extent_counts counts = First::counts + Rest::counts;
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    First::list_into(sink);
    Rest::list_into(sink);
  }
};

template <int Position, class Flow, int Times, class Items>
constexpr auto repeated() {
  using first = typed_scope<Position, Flow, Items>;
  using after = typename first::after;
  if constexpr (Times == 1 || std::is_same_v<after, Flow> || is_unknown<after>) return steady_repeat<first, Times>{};
  else return followed_by<first, decltype(repeated<Position + first::counts.layers, after, Times - 1, Items>())>{};
}

// residual: a scope with an anonymous stash before its items, and the pop and the addition after them.
struct pop_residual {
  using popped = residual_stash;
};

template <class Edge>
struct returns {
  using returned = Edge;
};

template <int Position, class Given, class Edge, class... Skips>
struct typed_returns {
  using after =
      std::conditional_t<std::is_same_v<Given, Edge>, flow<Edge, Skips...>,
                         unknown<broken::residual_returns_its_input<broken::position<Position>, Given, Edge, false>>>;
  static constexpr extent_counts counts{};
  template <class Sink>
  static constexpr void list_into(Sink&) {}
};

template <class Edge, class Items>
struct residual_items;
template <class Edge, class... Items>
struct residual_items<Edge, list<Items...>> {
  using type = list<residual_stash, Items..., returns<Edge>, pop_residual, add>;
};

// Selects the kind of an item by its members.
template <int Position, class Item, class Edge, class... Skips>
constexpr auto typed_item() {
  using before = flow<Edge, Skips...>;
  if constexpr (requires { Item::stashed_as; }) return typed_stash<Item, Edge, Skips...>{};
  else if constexpr (requires { Item::names; }) return checked_stashes<Position, Item, Edge, Skips...>();
  else if constexpr (requires { typename Item::popped; })
    return checked_pop<Position, typename Item::popped, Edge, Skips...>();
  else if constexpr (requires { Item::read_from; }) return checked_from<Position, Item, Edge, Edge, Skips...>();
  else if constexpr (requires { typename Item::alone; })
    return typed_only<decltype(brought<Position, typename Item::alone, Edge, Skips...>())>{};
  else if constexpr (requires { Item::loss_named; }) return checked_auxiliary<Position, Item, Edge, Skips...>();
  else if constexpr (requires { typename Item::returned; })
    return typed_returns<Position, typename Item::returned, Edge, Skips...>{};
  else if constexpr (requires { Item::times; }) return repeated<Position, before, Item::times, typename Item::items>();
  else if constexpr (requires { Item::adds_its_input; })
    return typed_scope<Position, before, typename residual_items<Edge, typename Item::items>::type>{};
  else if constexpr (requires {
                       Item::tied_as;
                       typename Item::layer::items;
                     })
    return mistaken<broken::tied_item_is_one_layer<broken::position<Position>, typename Item::layer, false>>{};
  else if constexpr (requires { Item::tied_as; })
    return typed_tied<decltype(checked_layer<Position, typename Item::layer, Edge, Skips...>()), Item>{};
  else if constexpr (requires {
                       typename Item::items;
                       typename Item::entering;
                     })
    return mistaken<broken::item_is_no_model<broken::position<Position>, Item, false>>{};
  else if constexpr (requires { Item::is_scope; }) return typed_scope<Position, before, typename Item::items>{};
  else if constexpr (requires { typename Item::items; })
    return typed_sequence<Position, before, typename Item::items>{};
  else return checked_layer<Position, Item, Edge, Skips...>();
}

template <int Position, class Item, class Edge, class... Skips>
struct typed<Position, Item, flow<Edge, Skips...>> : decltype(typed_item<Position, Item, Edge, Skips...>()) {};

// A sequence, sixteen items per step: nvcc's limit is template depth 200.
template <int Position, class Flow>
struct typed_sequence<Position, Flow, list<>> {
  using after = Flow;
  static constexpr extent_counts counts{};
  template <class Sink>
  static constexpr void list_into(Sink&) {}
};

template <int Position, class Flow, class First, class... Rest>
struct typed_sequence<Position, Flow, list<First, Rest...>> {
  using first = typed<Position, First, Flow>;
  using reached = typename first::after;  // named, so that it is complete before the rest is instantiated
  using rest = typed_sequence<Position + first::counts.layers, reached, list<Rest...>>;
  using after = typename rest::after;
  static constexpr extent_counts counts = first::counts + rest::counts;
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    first::list_into(sink);
    rest::list_into(sink);
  }
};

template <int Position, class Flow, class A, class B, class C, class D, class E, class F, class G, class H,
          class Indices, class J, class K, class L, class M, class N, class O, class P, class Q, class... Rest>
struct typed_sequence<Position, Flow, list<A, B, C, D, E, F, G, H, Indices, J, K, L, M, N, O, P, Q, Rest...>> {
  using first = typed_sequence<Position, Flow, list<A, B, C, D, E, F, G, H, Indices, J, K, L, M, N, O, P>>;
  using reached = typename first::after;
  using rest = typed_sequence<Position + first::counts.layers, reached, list<Q, Rest...>>;
  using after = typename rest::after;
  static constexpr extent_counts counts = first::counts + rest::counts;
  template <class Sink>
  static constexpr void list_into(Sink& sink) {
    first::list_into(sink);
    rest::list_into(sink);
  }
};

}  // namespace gpipe::detail
