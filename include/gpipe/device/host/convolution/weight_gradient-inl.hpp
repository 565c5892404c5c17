#pragma once

#include <algorithm>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/device/host/convolution/weight_gradient.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::host::detail {

GPIPE_COLD GPIPE_INLINE packed_chunks chunks_of(const convolution_shape& s, int strip, int element_bytes) {
  const int panel = packed_chunks::panel, width = s.out_width(), height = s.out_height();
  const bool single = s.taps() == 1 && s.padding_height == 0 && s.padding_width == 0;
  packed_chunks made;
  made.out_width = width;
  made.step_down = single ? s.stride_height : 1, made.step_across = single ? s.stride_width : 1;
  made.in_width = single ? width : s.in_width;
  const int stride = single ? 1 : s.stride_height, extent = single ? height : s.in_height;
  const int reach = single ? 1 : (s.kernel_height - 1) * s.dilation_height + 1;
  const auto rows_of_x = [&](int first, int rows, int& begin) {
    begin = (std::max)(0, first * stride - s.padding_height);
    const int until = (std::min)(extent, (first + rows - 1) * stride - s.padding_height + reach);
    return (std::max)(0, until - begin);
  };
  const auto fits = [&](int rows, int samples) {
    int begin, max = 0;
    for (int first = 0; first < height; first += rows)
      max = (std::max)(max, rows_of_x(first, (std::min)(rows, height - first), begin));
    return samples * rows * width <= packed_chunks::pixels &&
           samples * max * made.in_width * panel * element_bytes <= packed_chunks::panels_bytes;
  };
  // Few channels are near each other without a copy, and a copy does not pay for a last strip of one vector.
  const bool few = s.group_in() < panel || (s.group_in() <= 2 * panel && s.group_out() <= strip);
  const int last = (s.group_out() - 1) % strip + 1;
  if (few || last * element_bytes <= 64 || !fits(1, 1)) return made;
  made.rows = height;
  while (!fits(made.rows, 1)) made.rows = (made.rows + 1) / 2;
  if (made.rows == height)
    while (fits(height, made.together + 1)) ++made.together;
  for (int row = 0; row < height; row += made.rows) {
    packed_chunks::chunk chunk{row, 0, 0, 0, 0};
    chunk.in_rows = rows_of_x(row, (std::min)(made.rows, height - row), chunk.in_row);
    made.chunks.push_back(chunk);
  }
  return made;
}

GPIPE_COLD GPIPE_INLINE convolution_plan plan_packed(const convolution_shape& s, packed_chunks& chunks, int n, int m,
                                                     int element_bytes) {
  const bool single = s.taps() == 1 && s.padding_height == 0 && s.padding_width == 0;
  const int down = single ? 1 : s.stride_height, across = single ? 1 : s.stride_width, height = s.out_height();
  const int extent = single ? height : s.in_height;
  convolution_plan plan;
  const auto bytes = [&](std::ptrdiff_t elements) {
    return static_cast<unsigned long long>(elements) * static_cast<unsigned long long>(element_bytes);
  };
  for (packed_chunks::chunk& chunk : chunks.chunks) {
    chunk.first = static_cast<int>(plan.products.size());
    const int rows = (std::min)(chunks.rows, height - chunk.row);
    for (int i = 0; i < s.kernel_height; ++i)
      for (int j = 0; j < s.kernel_width; ++j) {
        // The rows and columns of dy whose tap is in the image.
        const int drop = i * s.dilation_height - s.padding_height, shift = j * s.dilation_width - s.padding_width;
        int top = chunk.row, bottom = chunk.row + rows, left = 0, right = chunks.out_width;
        while (top < bottom && top * down + drop < 0) ++top;
        while (top < bottom && (bottom - 1) * down + drop >= extent) --bottom;
        while (left < right && left * across + shift < 0) ++left;
        while (left < right && (right - 1) * across + shift >= chunks.in_width) --right;
        if (top == bottom || left == right) continue;
        convolution_plan::product product{};
        product.n = n;
        product.k = single ? rows * chunks.out_width : right - left;  // all pixels are neighbours
        product.a_stride = m;
        product.b_stride = across * n;
        product.c_stride = s.out_channels;
        product.a = (std::ptrdiff_t{top - chunk.row} * chunks.out_width + left) * m;
        product.b = (std::ptrdiff_t{top * down + drop - chunk.in_row} * chunks.in_width + left * across + shift) * n;
        product.c = (std::ptrdiff_t{i} * s.kernel_width + j) * s.group_in() * s.out_channels;
        product.first_tap = static_cast<int>(plan.a_taps.size());
        product.taps = single ? 1 : bottom - top;
        for (int sample = 0; sample < chunks.together; ++sample)
          for (int row = 0; row < product.taps; ++row) {
            plan.a_taps.push_back(bytes((std::ptrdiff_t{sample} * rows + row) * chunks.out_width * m));
            plan.b_taps.push_back(bytes((std::ptrdiff_t{sample} * chunk.in_rows + row * down) * chunks.in_width * n));
          }
        plan.products.push_back(product);
      }
    chunk.end = static_cast<int>(plan.products.size());
  }
  return plan;
}

}  // namespace gpipe::host::detail
