#pragma once

#include <array>
#include <cstddef>

#include <gpipe/core/tensors/tensor.hpp>

namespace gpipe {

/// The shape of one image or map of features, as a type: `feature_map<float, 3, 224, 224>` has C = 3 channels and H x
/// W pixels. In memory the channels of a pixel are neighbours ("channels-last"), because convolutions and poolings are
/// fastest so:
///
///     element (c, y, x) is at (y W + x) C + c
///
///     | c 0 1 2 | 0 1 2 | 0 1 2 |  row 0, pixels 0, 1, 2
///     | c 0 1 2 | 0 1 2 | 0 1 2 |  row 1
///
/// Functions of each element take it as they take a tensor. Others do not: `flatten` turns it into a row.
template <detail::element T, int C, int H, int W>
struct feature_map {
  static_assert(C > 0 && H > 0 && W > 0, "gpipe: a feature map's extents must be at least 1");

  using value_type = T;
  static constexpr int channels = C, height = H, width = W, rank = 3;
  static constexpr std::array<int, 3> extents{C, H, W};
  static constexpr std::size_t pixels = static_cast<std::size_t>(H) * static_cast<std::size_t>(W);
  static constexpr std::size_t size = pixels * static_cast<std::size_t>(C);  ///< elements per sample
};

namespace detail {

template <class>
inline constexpr bool is_feature_map = false;
template <class T, int C, int H, int W>
inline constexpr bool is_feature_map<feature_map<T, C, H, W>> = true;

template <class T, int C, int H, int W>
inline constexpr bool is_tensor<feature_map<T, C, H, W>> = true;

template <class T, int C, int H, int W>
inline constexpr bool has_extents<feature_map<T, C, H, W>> = C > 0 && H > 0 && W > 0;

template <class T, int C, int H, int W, class To>
struct converted<feature_map<T, C, H, W>, To> {
  using type = feature_map<To, C, H, W>;
};

/// A feature map of floating-point numbers, the input of convolutions and poolings.
template <class T>
concept floating_map = is_feature_map<T> && floating_tensor<T>;

}  // namespace detail

}  // namespace gpipe
