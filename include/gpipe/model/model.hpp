#pragma once

#include <gpipe/model/network.hpp>
#include <gpipe/model/structure/sliced_head.hpp>

namespace gpipe {

/// A network as a list of layer types: `struct net : gpipe::model<gpipe::input<float, 64>, linear<10>, ...> {};`
/// Items are layers, `sequence`, `repeat`, `residual`, `stash`, `pop`, `from`, `only`, `tied` and `named`, or blocks
/// derived from a sequence. Every layer and edge is checked at compile time, where the model is first used.
template <class Input, class... Items>
struct model {
  using entering = typename decltype(detail::entering_of<Input>())::type;
  using items = detail::list<Items...>;
};

/// The model as data: the list with its repeats expanded, and its layers numbered from 0.
template <class Model>
inline constexpr network network_of = detail::checked_view<Model>();

/// The number of layers after repeats are expanded, which is also the maximum number of stages.
template <class Model>
inline constexpr int layers_of = network_of<Model>.layer_count;

}  // namespace gpipe
