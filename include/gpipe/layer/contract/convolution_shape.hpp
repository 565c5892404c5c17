#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>

namespace gpipe {

// change: a convolution option
/// One call of a convolution on feature maps. For each sample, output channel k and output pixel (t, u):
///
///     y[t][u][k] = b[k] + sum over i, j, c of w[i][j][c][k] x[t s - p + i d][u s - p + j d][c]
///
/// with stride s, padding p and dilation d of each direction; pixels outside of x are 0. The weight {KH, KW, C / G, K}
/// is PyTorch's Conv2d weight {K, C / G, KH, KW} with the order of its extents turned around. With G groups, output
/// channel k reads the C / G input channels of its group, k / (K / G).
///
///     kernel 3, stride 2, padding 1:       t = 0     . x x      rows of x that the output's rows read
///                                          t = 1         x x x
struct convolution_shape {
  int samples;
  int in_channels, in_height, in_width;
  int out_channels;
  int kernel_height, kernel_width;
  int stride_height = 1, stride_width = 1;
  int padding_height = 0, padding_width = 0;
  int dilation_height = 1, dilation_width = 1;
  int groups = 1;

  GPIPE_HOST_DEVICE constexpr int out_height() const {
    return (in_height + 2 * padding_height - dilation_height * (kernel_height - 1) - 1) / stride_height + 1;
  }
  GPIPE_HOST_DEVICE constexpr int out_width() const {
    return (in_width + 2 * padding_width - dilation_width * (kernel_width - 1) - 1) / stride_width + 1;
  }
  GPIPE_HOST_DEVICE constexpr int group_in() const { return in_channels / groups; }
  GPIPE_HOST_DEVICE constexpr int group_out() const { return out_channels / groups; }
  GPIPE_HOST_DEVICE constexpr int taps() const { return kernel_height * kernel_width; }
  constexpr std::size_t weight_size() const {
    return static_cast<std::size_t>(taps()) * static_cast<std::size_t>(group_in()) *
           static_cast<std::size_t>(out_channels);
  }

  friend constexpr bool operator==(const convolution_shape&, const convolution_shape&) = default;
};

/// Elements of a packed copy of a convolution's weight, for either direction.
constexpr std::size_t convolution_packed_size(const convolution_shape& shape) { return shape.weight_size(); }

}  // namespace gpipe
