#pragma once

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements with other extents: `reshape<784>` of tensor<T, 28, 28>. No data moves. The model refuses another
/// number of elements, and names both numbers.
template <int... N>
struct reshape {
  template <class In>
  struct on;

  template <class T, int... Extents>
  struct on<tensor<T, Extents...>> {
    using output = tensor<T, N...>;
    static constexpr bool view = true;
  };
};

}  // namespace gpipe
