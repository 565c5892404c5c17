#pragma once

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements with other extents: `reshape<784>` of tensor<T, 28, 28>. No data moves. Another
/// number of elements is an error of the model that names both.
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
