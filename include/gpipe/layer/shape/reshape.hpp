#pragma once

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements with other extents: `reshape<784>` of tensor<T, 28, 28>. No data moves. The model refuses another
/// number of elements, and names both numbers.
template <int... N>
struct reshape {
  template <class In>
  struct on;

  template <class In>
  requires detail::is_tensor<In>
  struct on<In> {
    using output = tensor<typename In::value_type, N...>;
    static constexpr bool view = true;
  };
};

}  // namespace gpipe
