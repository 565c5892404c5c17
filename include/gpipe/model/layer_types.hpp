#pragma once

#include <gpipe/model/hana.hpp>
#include <gpipe/model/network.hpp>

namespace gpipe::detail {

// The bound layers of the network's types, in their order, from the typed model. Overloads take a pointer, so that a
// type derived from one of these matches, too.

template <class... As, class... Bs>
list<As..., Bs...> append(list<As...>, list<Bs...>);

template <class Promise>
list<> layer_types(mistaken<Promise>*);
template <class Layer, class Edge, class... Skips>
list<bound<Layer, Edge>> layer_types(typed_layer<Layer, Edge, Skips...>*);
template <class Item, class Edge, class... Skips>
list<typename typed_from<Item, Edge, Skips...>::layer> layer_types(typed_from<Item, Edge, Skips...>*);
template <class Item, class Edge, class... Skips>
list<> layer_types(typed_stash<Item, Edge, Skips...>*);
template <class Item, class Edge, class Names, class Parts, class Skips>
list<> layer_types(typed_stashes<Item, Edge, Names, Parts, Skips>*);
template <class Stash, class Edge, class... Skips>
list<> layer_types(typed_pop<Stash, Edge, Skips...>*);
template <int Position, class Given, class Edge, class... Skips>
list<> layer_types(typed_returns<Position, Given, Edge, Skips...>*);
template <int Position, class Flow>
list<> layer_types(typed_sequence<Position, Flow, list<>>*);

template <class Typed>
using layer_types_of = decltype(layer_types(static_cast<Typed*>(nullptr)));

template <int Position, class Flow, class Items>
auto layer_types(typed_scope<Position, Flow, Items>* scope) {
  return layer_types_of<typename std::remove_pointer_t<decltype(scope)>::inner>{};
}
template <class First, int Times>
auto layer_types(steady_repeat<First, Times>*) {
  return layer_types_of<First>{};
}
template <class First, class Rest>
auto layer_types(followed_by<First, Rest>*) {
  return decltype(append(layer_types_of<First>{}, layer_types_of<Rest>{})){};
}
template <int Position, class Flow, class Item, class... Items>
auto layer_types(typed_sequence<Position, Flow, list<Item, Items...>>* sequence) {
  using type = std::remove_pointer_t<decltype(sequence)>;
  return decltype(append(layer_types_of<typename type::first>{}, layer_types_of<typename type::rest>{})){};
}

template <class Model>
using layer_type_list = layer_types_of<typed_model<Model>>;

/// The bound layer of a type.
template <class Model, int Row>
using bound_layer_type = element_at<layer_type_list<Model>, Row>;

}  // namespace gpipe::detail
