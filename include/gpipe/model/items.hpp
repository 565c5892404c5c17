#pragma once

#include <cstddef>

#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe {

/// A name in a type: the "x" of `stash<"x">`.
template <std::size_t N>
struct text {
  char letters[N]{};
  constexpr text(const char (&from)[N]) {
    for (std::size_t i = 0; i < N; ++i) letters[i] = from[i];
  }
};

template <class...>
struct list {};

/// What enters the model: the field "inputs" of the data, one `tensor<T, N...>` a sample.
template <element T, int... N>
struct input {
  using entering = tensor<T, N...>;
};

/// Items one after the other. Derive from it to give a block of your own a name:
/// `struct block : sequence<layer_norm, linear<64>> {};`
template <class... Items>
struct sequence {
  using items = list<Items...>;
};

/// The items `Times` over, each time with parameters of its own. A scope for the names of skips.
/// A body that returns the edge it was given is instantiated once.
template <int Times, class... Items>
struct repeat {
  static_assert(Times >= 1, "repeat<N, ...> needs N >= 1");
  static constexpr int times = Times;
  using items = list<Items...>;
};

/// x + items(x): an anonymous stash and pop around the items. A scope for the names of skips.
template <class... Items>
struct residual {
  static constexpr bool adds_its_input = true;
  using items = list<Items...>;
};

/// Keeps the edge as it is here under a name, for every `pop` of that name further on in the scope.
template <text Name>
struct stash {
  static constexpr const char* stashed_as = Name.letters;
};

/// Adds the tensors stashed under the name behind those on the edge: the next layer reads them all.
template <text Name>
struct pop {
  using popped = stash<Name>;
};

/// The layer, with parameters that all layers tied under the name share, wherever they are in the model: the first one
/// owns them. Their shapes must be the same.
template <text Name, class Layer>
struct tied {
  static constexpr const char* tied_as = Name.letters;
  using layer = Layer;
};

}  // namespace gpipe
