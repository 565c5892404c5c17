#pragma once

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// The same elements as an image: tensor<T, H W C>, or tensor<T, H, W, C>, becomes feature_map<T, C, H, W>. No data
/// moves.
template <int C, int H, int W>
struct as_feature_map {
  template <class In>
  struct on;

  template <class In>
  requires detail::is_tensor<In>
  struct on<In> {
    using output = feature_map<typename In::value_type, C, H, W>;
    static constexpr bool view = true;
  };
};

/// The same elements as a row of channels for each pixel: feature_map<T, C, H, W> becomes tensor<T, H W, C>, so that
/// `linear` and `softmax_cross_entropy` act on each pixel. No data moves.
struct as_pixels {
  template <class In>
  struct on;

  template <class In>
  requires detail::is_feature_map<In>
  struct on<In> {
    using output = tensor<typename In::value_type, static_cast<int>(In::pixels), In::channels>;
    static constexpr bool view = true;
  };
};

}  // namespace gpipe
