#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>

namespace gpipe::host::detail {

GPIPE_COLD GPIPE_INLINE std::vector<convolution_span> spans_of(const convolution_axis& axis) {
  std::vector<convolution_span> spans;
  const auto equal_taps = [](const convolution_axis::tap& a, const convolution_axis::tap& b) {
    return a.kernel == b.kernel;
  };
  for (int t = 0; t < axis.count; ++t) {
    std::vector<convolution_axis::tap> seen;
    for (const auto& tap : axis.taps)
      if (axis.sees(tap, t)) seen.push_back(tap);
    if (!spans.empty() &&
        std::equal(seen.begin(), seen.end(), spans.back().taps.begin(), spans.back().taps.end(), equal_taps))
      spans.back().end = t + 1;
    else spans.push_back({t, t + 1, std::move(seen)});
  }
  return spans;
}

/// Forward: y[t] reads x[t stride - padding + i dilation].
GPIPE_COLD GPIPE_INLINE convolution_axis forward_axis(int in, int out, int kernel, int stride, int padding,
                                                      int dilation) {
  convolution_axis axis{out, 0, 1, stride, in, {}};
  for (int i = 0; i < kernel; ++i) axis.taps.push_back({i, i * dilation - padding});
  return axis;
}

/// Backward: x[phase + t stride] reads dy[t + (phase + padding - i dilation) / stride], for the taps i that divide.
GPIPE_COLD GPIPE_INLINE convolution_axis backward_axis(int in, int out, int kernel, int stride, int padding,
                                                       int dilation, int phase) {
  convolution_axis axis{(in - phase + stride - 1) / stride, phase, stride, 1, out, {}};
  for (int i = 0; i < kernel; ++i)
    if (const int position = phase + padding - i * dilation; position % stride == 0)
      axis.taps.push_back({i, position / stride});
  return axis;
}

/// Products over pixels: forward, and backward_input with its arrays exchanged.
class pixel_planner {
 public:
  struct array {
    int height, width, channels;  // in pixels; elements from pixel to pixel
    int sample() const { return height * width * channels; }
  };
  pixel_planner(array in, array out, int depth, int kernel_width, int strip, int element_bytes)
      : in_(in), out_(out), depth_(depth), kernel_width_(kernel_width), strip_(strip), element_bytes_(element_bytes) {}

  /// Images without gaps between them, each a row of pixels.
  GPIPE_COLD void join_rows() {
    plan_.together = static_cast<int>(std::bit_floor(static_cast<unsigned>((std::max)(1, longest / out_.width))));
  }
  /// A call has the same pixel of several samples.
  GPIPE_COLD void join_pixels() { plan_.together = max_samples, single_ = true; }

  GPIPE_COLD void add(const convolution_axis& rows, const convolution_axis& columns) {
    for (const convolution_span& down : spans_of(rows))
      for (const convolution_span& across : spans_of(columns)) add(rows, columns, down, across);
  }
  convolution_plan take() { return std::move(plan_); }

 private:
  static constexpr int longest = 224, tallest = 14, max_samples = 32;

  GPIPE_COLD void add(const convolution_axis& rows, const convolution_axis& columns, const convolution_span& down,
                      const convolution_span& across) {
    convolution_plan::product product{};
    product.k = depth_;
    product.a_stride = strip_;
    product.first_tap = static_cast<int>(plan_.a_taps.size());
    std::ptrdiff_t lowest = 0;
    const auto offset_of = [&](const convolution_axis::tap& i, const convolution_axis::tap& j) {
      return (std::ptrdiff_t{i.offset} * in_.width + j.offset) * in_.channels;
    };
    for (const auto& i : down.taps)
      for (const auto& j : across.taps)
        lowest = product.taps++ == 0 ? offset_of(i, j) : (std::min)(lowest, offset_of(i, j));
    for (const auto& i : down.taps)
      for (const auto& j : across.taps) {
        const std::ptrdiff_t kernel = std::ptrdiff_t{i.kernel} * kernel_width_ + j.kernel;
        plan_.a_taps.push_back(bytes(kernel * depth_ * strip_));
        plan_.b_taps.push_back(bytes(offset_of(i, j) - lowest));
      }
    const auto add_product = [&](int t, int u, int n, int b_stride, int c_stride) {
      product.n = n, product.b_stride = b_stride, product.c_stride = c_stride;
      product.b =
          (std::ptrdiff_t{t} * rows.in_step * in_.width + std::ptrdiff_t{u} * columns.in_step) * in_.channels + lowest;
      product.c = (std::ptrdiff_t{rows.out_first + t * rows.out_step} * out_.width + columns.out_first +
                   std::ptrdiff_t{u} * columns.out_step) *
                  out_.channels;
      plan_.products.push_back(product);
    };
    const int width = across.end - across.first, height = down.end - down.first;
    if (single_) {
      for (int t = down.first; t < down.end; ++t)
        for (int u = across.first; u < across.end; ++u) add_product(t, u, 1, in_.sample(), out_.sample());
    } else if (width >= (std::min)(height, tallest)) {
      for (int t = down.first; t < down.end; ++t)
        for (int u = across.first; u < across.end; u += longest)
          add_product(t, u, (std::min)(longest, across.end - u), columns.in_step * in_.channels,
                      columns.out_step * out_.channels);
    } else {
      for (int u = across.first; u < across.end; ++u)
        for (int t = down.first; t < down.end; t += tallest)
          add_product(t, u, (std::min)(tallest, down.end - t), rows.in_step * in_.width * in_.channels,
                      rows.out_step * out_.width * out_.channels);
    }
  }
  unsigned long long bytes(std::ptrdiff_t elements) const {
    return static_cast<unsigned long long>(elements) * static_cast<unsigned long long>(element_bytes_);
  }

  array in_, out_;
  int depth_, kernel_width_, strip_, element_bytes_;
  bool single_ = false;
  convolution_plan plan_;
};

/// dw of a tap is a product over the pixels that see it: of several samples if a sample has few, else of 14
/// rows of dy. A tap has one product if samples share it, so that they are added up one after the other.
///
/// The taps of a row of the kernel are neighbours in memory. If x has few channels, as an image has, a product has all
/// of them: 7 taps of 3 channels are 21 rows n, and dy is read 7 times, not 49. libxsmm needs rows that do not overlap,
/// so the product then takes every second, third ... pixel:
///
///     x          |rgb|rgb|rgb|rgb|rgb|rgb|rgb|rgb|       3 taps, stride 1
///     product 0  |pixel 0....|pixel 3....| pixel 6 ...
///     product 1      |pixel 1....|pixel 4....| ...
///     product 2          |pixel 2....|pixel 5....| ...
///
/// Pixels at the sides, which do not see all taps of the row, have one product per tap.
GPIPE_COLD GPIPE_INLINE convolution_plan plan_weight_gradient(const convolution_shape& s, const convolution_axis& rows,
                                                              const convolution_axis& columns, int in_width,
                                                              int out_width, int element_bytes) {
  constexpr int longest = convolution_plan::max_pixels;
  const bool fits = rows.count * columns.count <= longest;
  const int tallest = fits ? rows.count : 14;
  convolution_plan plan;
  if (fits) plan.together = longest / (rows.count * columns.count);
  const auto seen = [](const convolution_axis& axis, const convolution_axis::tap& tap) {
    convolution_span span{axis.count, 0, {}};
    for (int t = 0; t < axis.count; ++t)
      if (axis.sees(tap, t)) span.first = (std::min)(span.first, t), span.end = t + 1;
    return span;
  };
  // The product of rows [t, until) and columns [u, end) of dy, for `joined` taps from (i, j) on.
  using tap = convolution_axis::tap;
  const auto add = [&](const tap& i, const tap& j, int joined, int t, int until, int u, int end) {
    const int pixel_step = (joined + columns.in_step - 1) / columns.in_step;
    while (u < end) {
      const int left = end - u, pieces = (left + longest - 1) / longest, pixels = (left + pieces - 1) / pieces;
      for (int first = u; first < u + (std::min)(pixel_step, pixels); ++first) {
        convolution_plan::product product{};
        product.n = joined * s.group_in();
        product.k = (u + pixels - first + pixel_step - 1) / pixel_step;
        product.a_stride = pixel_step * s.out_channels;
        product.b_stride = pixel_step * columns.in_step * s.in_channels;
        product.c_stride = s.out_channels;
        product.a = (std::ptrdiff_t{t} * out_width + first) * s.out_channels;
        product.b = (std::ptrdiff_t{t * rows.in_step + i.offset} * in_width + first * columns.in_step + j.offset) *
                    s.in_channels;
        product.c = (std::ptrdiff_t{i.kernel} * s.kernel_width + j.kernel) * s.group_in() * s.out_channels;
        product.first_tap = static_cast<int>(plan.a_taps.size());
        product.taps = until - t;
        for (int r = 0; r < product.taps; ++r) {
          const auto row = static_cast<unsigned long long>(r) * static_cast<unsigned long long>(element_bytes);
          plan.a_taps.push_back(row * static_cast<unsigned long long>(std::ptrdiff_t{out_width} * s.out_channels));
          plan.b_taps.push_back(
              row * static_cast<unsigned long long>(std::ptrdiff_t{rows.in_step} * in_width * s.in_channels));
        }
        plan.products.push_back(product);
      }
      u += pixels;
    }
  };
  // Columns that see all taps of a row.
  convolution_span inside{0, columns.count, {}};
  for (const tap& j : columns.taps) {
    const convolution_span across = seen(columns, j);
    inside.first = (std::max)(inside.first, across.first), inside.end = (std::min)(inside.end, across.end);
  }
  const bool few = s.groups == 1 && s.in_channels < 8 && s.in_channels * s.out_channels > 1 && s.dilation_width == 1;
  const bool joins = few && !fits && inside.first < inside.end;
  for (int row = 0; row < rows.count; row += tallest)  // all taps read these rows of dy while they are in the cache
    for (const tap& i : rows.taps) {
      const convolution_span down = seen(rows, i);
      const int t = (std::max)(row, down.first), until = (std::min)(row + tallest, down.end);
      if (t >= until) continue;
      if (joins) add(i, columns.taps.front(), s.kernel_width, t, until, inside.first, inside.end);
      for (const tap& j : columns.taps) {
        const convolution_span across = seen(columns, j);
        add(i, j, 1, t, until, across.first, joins ? inside.first : across.end);
        if (joins) add(i, j, 1, t, until, inside.end, across.end);
      }
    }
  return plan;
}

GPIPE_COLD GPIPE_INLINE convolution_plan plan_convolution(const convolution_shape& s, convolution_pass pass, int strip,
                                                          int element_bytes) {
  // A kernel of one tap that moves by one pixel sees all pixels in one row.
  const bool flat =
      s.taps() == 1 && s.stride_height == 1 && s.stride_width == 1 && s.padding_height == 0 && s.padding_width == 0;
  const int in_height = flat ? 1 : s.in_height, in_width = flat ? s.in_height * s.in_width : s.in_width;
  const int out_height = flat ? 1 : s.out_height(), out_width = flat ? in_width : s.out_width();
  const auto join = [&](pixel_planner& planner, const convolution_axis& rows, const convolution_axis& columns) {
    if (flat) planner.join_rows();
    else if (rows.count * columns.count <= 16) planner.join_pixels();
  };
  if (pass == convolution_pass::backward_input) {
    pixel_planner planner({out_height, out_width, s.out_channels}, {in_height, in_width, s.in_channels}, s.group_out(),
                          s.kernel_width, strip, element_bytes);
    const auto rows_of = [&](int phase) {
      return backward_axis(in_height, out_height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height,
                           phase);
    };
    const auto columns_of = [&](int phase) {
      return backward_axis(in_width, out_width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width,
                           phase);
    };
    join(planner, rows_of(0), columns_of(0));
    for (int down = 0; down < (std::min)(s.stride_height, in_height); ++down)
      for (int across = 0; across < (std::min)(s.stride_width, in_width); ++across)
        planner.add(rows_of(down), columns_of(across));
    return planner.take();
  }
  const convolution_axis rows =
      forward_axis(in_height, out_height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height);
  const convolution_axis columns =
      forward_axis(in_width, out_width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width);
  if (pass == convolution_pass::backward_weight)
    return plan_weight_gradient(s, rows, columns, in_width, out_width, element_bytes);
  pixel_planner planner({in_height, in_width, s.in_channels}, {out_height, out_width, s.out_channels}, s.group_in(),
                        s.kernel_width, strip, element_bytes);
  join(planner, rows, columns);
  planner.add(rows, columns);
  return planner.take();
}

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
