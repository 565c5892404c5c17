#pragma once

#include <gpipe/model/hana.hpp>
#include <gpipe/model/network.hpp>

namespace gpipe::detail {

// The types of the network's rows, in their order, from the typed model. Overloads take a pointer, so that a type
// derived from one of these matches, too.

template <class... As, class... Bs>
list<As..., Bs...> append(list<As...>, list<Bs...>);

template <class Promise>
list<> row_types(mistaken<Promise>*);
template <class Layer, class Edge, class... Skips>
list<bound<Layer, Edge>> row_types(typed_slot<Layer, Edge, Skips...>*);
template <class Item, class Edge, class... Skips>
list<typename typed_from<Item, Edge, Skips...>::layer> row_types(typed_from<Item, Edge, Skips...>*);
template <class Item, class Edge, class... Skips>
list<> row_types(typed_stash<Item, Edge, Skips...>*);
template <class Item, class Edge, class Names, class Parts, class Skips>
list<> row_types(typed_stashes<Item, Edge, Names, Parts, Skips>*);
template <class Stash, class Edge, class... Skips>
list<> row_types(typed_pop<Stash, Edge, Skips...>*);
template <int Position, class Given, class Edge, class... Skips>
list<> row_types(typed_returns<Position, Given, Edge, Skips...>*);
template <int Position, class Flow>
list<> row_types(typed_sequence<Position, Flow, list<>>*);

template <class Typed>
using row_types_of = decltype(row_types(static_cast<Typed*>(nullptr)));

template <int Position, class Flow, class Items>
auto row_types(typed_scope<Position, Flow, Items>* scope) {
  return row_types_of<typename std::remove_pointer_t<decltype(scope)>::inner>{};
}
template <class First, int Times>
auto row_types(steady_repeat<First, Times>*) {
  return row_types_of<First>{};
}
template <class First, class Rest>
auto row_types(followed_by<First, Rest>*) {
  return decltype(append(row_types_of<First>{}, row_types_of<Rest>{})){};
}
template <int Position, class Flow, class Item, class... Items>
auto row_types(typed_sequence<Position, Flow, list<Item, Items...>>* sequence) {
  using type = std::remove_pointer_t<decltype(sequence)>;
  return decltype(append(row_types_of<typename type::first>{}, row_types_of<typename type::rest>{})){};
}

template <class Model>
using row_list = row_types_of<typed_model<Model>>;

/// The bound layer of a row.
template <class Model, int Row>
using row_type = element_at<row_list<Model>, Row>;

}  // namespace gpipe::detail
