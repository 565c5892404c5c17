#pragma once

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements as one row for each sample: tensor<T, 8, 8> becomes tensor<T, 64>. No data moves. `linear` acts on
/// each row of the last extent, so an image needs `flatten` before it.
struct flatten {
  template <class In>
  struct on;

  template <class T, int... Extents>
  struct on<tensor<T, Extents...>> {
    using output = tensor<T, static_cast<int>(tensor<T, Extents...>::size)>;
    static constexpr bool view = true;
  };
};

}  // namespace gpipe
