#pragma once

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements as one row for each sample: tensor<T, 8, 8> becomes tensor<T, 64>. No data moves. `linear` acts on
/// each row of the last extent, so a tensor of more extents needs `flatten` before it. A feature_map<T, C, H, W>
/// becomes tensor<T, H W C> in the order of its memory: the channels of the first pixel come first, and not, as in
/// PyTorch, the first channel's pixels.
struct flatten {
  template <class In>
  struct on;

  template <class In>
  requires detail::is_tensor<In>
  struct on<In> {
    using output = tensor<typename In::value_type, static_cast<int>(In::size)>;
    static constexpr bool view = true;
  };
};

}  // namespace gpipe
