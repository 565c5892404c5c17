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
  convolution_shape shape;
  const compute_type<T>* weight;
  T* turned;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const auto channel = static_cast<int>(i % shape.in_channels),
               k = static_cast<int>(i / shape.in_channels % shape.group_out());
    const std::ptrdiff_t tap = i / shape.in_channels / shape.group_out();
    const int group = channel / shape.group_in();
    turned[i] = weight[(tap * shape.group_in() + channel % shape.group_in()) * shape.out_channels +
                       group * shape.group_out() + k];
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

// change: a convolution option
template <class T>
struct convolve {
  convolution_shape shape;
  int height, width;  ///< of y
  const T *x, *weight;
  const compute_type<T>* bias;
  T* y;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const map_index index(i, shape.out_channels, width, height);
    const int Cg = shape.group_in(), first = index.channel / shape.group_out() * Cg;
    compute_type<T> sum = bias == nullptr ? compute_type<T>(0) : bias[index.channel];
    for (int kh = 0; kh < shape.kernel_height; ++kh)
      for (int kw = 0; kw < shape.kernel_width; ++kw) {
        const int row = index.row * shape.stride_height - shape.padding_height + kh * shape.dilation_height;
        const int column = index.column * shape.stride_width - shape.padding_width + kw * shape.dilation_width;
        if (row < 0 || row >= shape.in_height || column < 0 || column >= shape.in_width) continue;
        const T* source =
            x + ((index.sample * shape.in_height + row) * shape.in_width + column) * shape.in_channels + first;
        const T* w = weight + std::ptrdiff_t{kh * shape.kernel_width + kw} * Cg * shape.out_channels + index.channel;
        for (int c = 0; c < Cg; ++c, w += shape.out_channels) sum += compute_type<T>(source[c]) * compute_type<T>(*w);
      }
    y[i] = static_cast<T>(sum);
  }
};

// change: a convolution option
template <class T>
struct convolve_back {
  convolution_shape shape;
  int height, width;  ///< of y
  const T *dy, *weight;
  T* dx;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const map_index index(i, shape.in_channels, shape.in_width, shape.in_height);
    const int Kg = shape.group_out(), first = index.channel / shape.group_in() * Kg;
    compute_type<T> sum = 0;
    for (int kh = 0; kh < shape.kernel_height; ++kh)
      for (int kw = 0; kw < shape.kernel_width; ++kw) {
        const int down = index.row + shape.padding_height - kh * shape.dilation_height;
        const int across = index.column + shape.padding_width - kw * shape.dilation_width;
        if (down < 0 || across < 0 || down % shape.stride_height != 0 || across % shape.stride_width != 0) continue;
        const int t = down / shape.stride_height, u = across / shape.stride_width;
        if (t >= height || u >= width) continue;
        const T* source = dy + ((index.sample * height + t) * width + u) * shape.out_channels + first;
        const T* w = weight + std::ptrdiff_t{kh * shape.kernel_width + kw} * Kg * shape.in_channels + index.channel;
        for (int k = 0; k < Kg; ++k, w += shape.in_channels) sum += compute_type<T>(source[k]) * compute_type<T>(*w);
      }
    dx[i] = static_cast<T>(sum);
  }
};

template <class T>
struct convolution_weight_gradient {
  convolution_shape shape;
  int height, width;  ///< of y
  const T *x, *dy;
  compute_type<T>* dw;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const auto k = static_cast<int>(i % shape.out_channels),
               c = static_cast<int>(i / shape.out_channels % shape.group_in());
    const auto tap = static_cast<int>(i / shape.out_channels / shape.group_in());
    const int kh = tap / shape.kernel_width, kw = tap % shape.kernel_width,
              channel = k / shape.group_out() * shape.group_in() + c;
    compute_type<T> sum = dw[i];  // so that the bits do not depend on the division of samples into calls
    for (std::ptrdiff_t n = 0; n < shape.samples; ++n)
      for (int t = 0; t < height; ++t) {
        const int row = t * shape.stride_height - shape.padding_height + kh * shape.dilation_height;
        if (row < 0 || row >= shape.in_height) continue;
        for (int u = 0; u < width; ++u) {
          const int column = u * shape.stride_width - shape.padding_width + kw * shape.dilation_width;
          if (column < 0 || column >= shape.in_width) continue;
          sum += compute_type<T>(
                     x[((n * shape.in_height + row) * shape.in_width + column) * shape.in_channels + channel]) *
                 compute_type<T>(dy[((n * height + t) * width + u) * shape.out_channels + k]);
        }
      }
    dw[i] = sum;
  }
};

}  // namespace gpipe::cuda::detail
