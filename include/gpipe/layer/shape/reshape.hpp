#pragma once

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements with other extents: `reshape<784>` of tensor<T, 28, 28>. No data moves.
template <int... N>
struct reshape {
  template <class In>
  struct on;

  template <class T, int... Extents>
    requires(tensor<T, N...>::size == tensor<T, Extents...>::size)
  struct on<tensor<T, Extents...>> {
    using output = tensor<T, N...>;
    static constexpr bool view = true;
  };
};

}  // namespace gpipe
