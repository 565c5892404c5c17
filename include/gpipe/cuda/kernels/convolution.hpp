#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::cuda::detail {

// Convolutions of groups with few channels, one thread per result; neighbouring threads have neighbouring channels. A
// sum has a fixed order: taps, then channels; in the gradient of the weight samples, then pixels. Wider groups are in
// convolution_tiles.hpp.

/// The packed weight of backward_input: {KH, KW, K / G, C}, so that neighbours read neighbours.
template <class T>
struct turned_weight {
  convolution_shape s;
  const compute_type<T>* weight;
  T* turned;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const auto channel = static_cast<int>(i % s.in_channels), k = static_cast<int>(i / s.in_channels % s.group_out());
    const std::ptrdiff_t tap = i / s.in_channels / s.group_out();
    const int group = channel / s.group_in();
    turned[i] = weight[(tap * s.group_in() + channel % s.group_in()) * s.out_channels + group * s.group_out() + k];
  }
};

/// The indices of element `i` of a feature map.
struct map_index {
  int channel, column, row;
  std::ptrdiff_t sample;
  GPIPE_HOST_DEVICE map_index(std::ptrdiff_t i, int channels, int width, int height)
      : channel(static_cast<int>(i % channels)),
        column(static_cast<int>(i / channels % width)),
        row(static_cast<int>(i / channels / width % height)),
        sample(i / channels / width / height) {}
};

template <class T>
struct convolve {
  convolution_shape s;
  int height, width;  ///< of y
  const T *x, *weight;
  const compute_type<T>* bias;
  T* y;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const map_index index(i, s.out_channels, width, height);
    const int Cg = s.group_in(), first = index.channel / s.group_out() * Cg;
    compute_type<T> sum = bias == nullptr ? compute_type<T>(0) : bias[index.channel];
    for (int kh = 0; kh < s.kernel_height; ++kh)
      for (int kw = 0; kw < s.kernel_width; ++kw) {
        const int row = index.row * s.stride_height - s.padding_height + kh * s.dilation_height;
        const int column = index.column * s.stride_width - s.padding_width + kw * s.dilation_width;
        if (row < 0 || row >= s.in_height || column < 0 || column >= s.in_width) continue;
        const T* source = x + ((index.sample * s.in_height + row) * s.in_width + column) * s.in_channels + first;
        const T* w = weight + std::ptrdiff_t{kh * s.kernel_width + kw} * Cg * s.out_channels + index.channel;
        for (int c = 0; c < Cg; ++c, w += s.out_channels) sum += compute_type<T>(source[c]) * compute_type<T>(*w);
      }
    y[i] = static_cast<T>(sum);
  }
};

template <class T>
struct convolve_back {
  convolution_shape s;
  int height, width;  ///< of y
  const T *dy, *weight;
  T* dx;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const map_index index(i, s.in_channels, s.in_width, s.in_height);
    const int Kg = s.group_out(), first = index.channel / s.group_in() * Kg;
    compute_type<T> sum = 0;
    for (int kh = 0; kh < s.kernel_height; ++kh)
      for (int kw = 0; kw < s.kernel_width; ++kw) {
        const int down = index.row + s.padding_height - kh * s.dilation_height;
        const int across = index.column + s.padding_width - kw * s.dilation_width;
        if (down < 0 || across < 0 || down % s.stride_height != 0 || across % s.stride_width != 0) continue;
        const int t = down / s.stride_height, u = across / s.stride_width;
        if (t >= height || u >= width) continue;
        const T* source = dy + ((index.sample * height + t) * width + u) * s.out_channels + first;
        const T* w = weight + std::ptrdiff_t{kh * s.kernel_width + kw} * Kg * s.in_channels + index.channel;
        for (int k = 0; k < Kg; ++k, w += s.in_channels) sum += compute_type<T>(source[k]) * compute_type<T>(*w);
      }
    dx[i] = static_cast<T>(sum);
  }
};

template <class T>
struct convolution_weight_gradient {
  convolution_shape s;
  int height, width;  ///< of y
  const T *x, *dy;
  compute_type<T>* dw;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const auto k = static_cast<int>(i % s.out_channels), c = static_cast<int>(i / s.out_channels % s.group_in());
    const auto tap = static_cast<int>(i / s.out_channels / s.group_in());
    const int kh = tap / s.kernel_width, kw = tap % s.kernel_width, channel = k / s.group_out() * s.group_in() + c;
    compute_type<T> sum = dw[i];  // so that the bits do not depend on the division of samples into calls
    for (std::ptrdiff_t n = 0; n < s.samples; ++n)
      for (int t = 0; t < height; ++t) {
        const int row = t * s.stride_height - s.padding_height + kh * s.dilation_height;
        if (row < 0 || row >= s.in_height) continue;
        for (int u = 0; u < width; ++u) {
          const int column = u * s.stride_width - s.padding_width + kw * s.dilation_width;
          if (column < 0 || column >= s.in_width) continue;
          sum += compute_type<T>(x[((n * s.in_height + row) * s.in_width + column) * s.in_channels + channel]) *
                 compute_type<T>(dy[((n * height + t) * width + u) * s.out_channels + k]);
        }
      }
    dw[i] = sum;
  }
};

}  // namespace gpipe::cuda::detail
