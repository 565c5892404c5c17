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
    std::vector<convolution_axis::tap> visible_taps;
    for (const auto& tap : axis.taps)
      if (axis.sees(tap, t)) visible_taps.push_back(tap);
    if (!spans.empty() && std::equal(visible_taps.begin(), visible_taps.end(), spans.back().taps.begin(),
                                     spans.back().taps.end(), equal_taps))
      spans.back().end = t + 1;
    else spans.push_back({t, t + 1, std::move(visible_taps)});
  }
  return spans;
}

/// Forward: output y[t] reads x[t stride - padding + i dilation] for each tap i of the kernel.
GPIPE_COLD GPIPE_INLINE convolution_axis forward_axis(int in, int out, int kernel, int stride, int padding,
                                                      int dilation) {
  convolution_axis axis{out, 0, 1, stride, in, {}};
  for (int i = 0; i < kernel; ++i) axis.taps.push_back({i, i * dilation - padding});
  return axis;
}

/// Backward: x[phase + t stride] reads dy[t + (phase + padding - i dilation) / stride], if the division is exact.
GPIPE_COLD GPIPE_INLINE convolution_axis backward_axis(int in, int out, int kernel, int stride, int padding,
                                                       int dilation, int phase) {
  convolution_axis axis{(in - phase + stride - 1) / stride, phase, stride, 1, out, {}};
  for (int i = 0; i < kernel; ++i)
    if (const int position = phase + padding - i * dilation; position % stride == 0)
      axis.taps.push_back({i, position / stride});
  return axis;
}

/// Plans the products of forward, and of backward_input, whose input is dy and whose output is dx.
class pixel_planner {
 public:
  struct array {
    int height, width, channels;  // channels of all groups: elements from one pixel to the next
    int sample() const { return height * width * channels; }
  };
  pixel_planner(array in, array out, int depth, int kernel_width, int strip, int element_bytes)
      : in_(in), out_(out), depth_(depth), kernel_width_(kernel_width), strip_(strip), element_bytes_(element_bytes) {}

  /// Calls are for several samples. Each image is a row of pixels, and there are no gaps between the images.
  GPIPE_COLD void join_rows() {
    plan_.together = static_cast<int>(std::bit_floor(static_cast<unsigned>((std::max)(1, max_columns / out_.width))));
  }
  /// Calls are for the same pixel of several samples.
  GPIPE_COLD void join_pixels() { plan_.together = max_samples, single_ = true; }

  GPIPE_COLD void add(const convolution_axis& rows, const convolution_axis& columns) {
    for (const convolution_span& row_span : spans_of(rows))
      for (const convolution_span& column_span : spans_of(columns)) add_rectangle(rows, columns, row_span, column_span);
  }
  convolution_plan take() { return std::move(plan_); }

 private:
  static constexpr int max_columns = 224, max_rows = 14, max_samples = 32;  // pixels of a product; samples of a call

  GPIPE_COLD void add_rectangle(const convolution_axis& rows, const convolution_axis& columns,
                                const convolution_span& row_span, const convolution_span& column_span) {
    convolution_plan::product product{};
    product.k = depth_;
    product.a_stride = strip_;
    product.first_tap = static_cast<int>(plan_.a_taps.size());
    std::ptrdiff_t min_offset = 0;
    const auto offset_of = [&](const convolution_axis::tap& i, const convolution_axis::tap& j) {
      return (std::ptrdiff_t{i.offset} * in_.width + j.offset) * in_.channels;
    };
    for (const auto& i : row_span.taps)
      for (const auto& j : column_span.taps)
        min_offset = product.taps++ == 0 ? offset_of(i, j) : (std::min)(min_offset, offset_of(i, j));
    for (const auto& i : row_span.taps)
      for (const auto& j : column_span.taps) {
        const std::ptrdiff_t kernel = std::ptrdiff_t{i.kernel} * kernel_width_ + j.kernel;
        plan_.a_taps.push_back(bytes(kernel * depth_ * strip_));
        plan_.b_taps.push_back(bytes(offset_of(i, j) - min_offset));
      }
    const auto add_product = [&](int t, int u, int n, int b_stride, int c_stride) {
      product.n = n, product.b_stride = b_stride, product.c_stride = c_stride;
      product.b = (std::ptrdiff_t{t} * rows.in_step * in_.width + std::ptrdiff_t{u} * columns.in_step) * in_.channels +
                  min_offset;
      product.c = (std::ptrdiff_t{rows.out_first + t * rows.out_step} * out_.width + columns.out_first +
                   std::ptrdiff_t{u} * columns.out_step) *
                  out_.channels;
      plan_.products.push_back(product);
    };
    const int width = column_span.end - column_span.first, height = row_span.end - row_span.first;
    if (single_) {
      for (int t = row_span.first; t < row_span.end; ++t)
        for (int u = column_span.first; u < column_span.end; ++u) add_product(t, u, 1, in_.sample(), out_.sample());
    } else if (width >= (std::min)(height, max_rows)) {  // along a row
      for (int t = row_span.first; t < row_span.end; ++t)
        for (int u = column_span.first; u < column_span.end; u += max_columns)
          add_product(t, u, (std::min)(max_columns, column_span.end - u), columns.in_step * in_.channels,
                      columns.out_step * out_.channels);
    } else {  // along a column, which has more pixels
      for (int u = column_span.first; u < column_span.end; ++u)
        for (int t = row_span.first; t < row_span.end; t += max_rows)
          add_product(t, u, (std::min)(max_rows, row_span.end - t), rows.in_step * in_.width * in_.channels,
                      rows.out_step * out_.width * out_.channels);
    }
  }
  unsigned long long bytes(std::ptrdiff_t elements) const {
    return static_cast<unsigned long long>(elements) * static_cast<unsigned long long>(element_bytes_);
  }

  array in_, out_;
  int depth_, kernel_width_, strip_, element_bytes_;  // k; in taps; elements from row to row of the packed weight
  bool single_ = false;
  convolution_plan plan_;
};

/// The gradient dw of a tap is a sum over the pixels that see it. A product has up to 14 rows of dy, or, if images are
/// small, all rows of several samples. In the latter case a tap has only one product, which adds the samples in order.
///
/// The taps in a row of the kernel see adjacent pixels. If x has few channels, as an image has, one product computes a
/// row of taps: with 7 x 7 taps and 3 channels, n is 21, and dy is read 7 times instead of 49 times. libxsmm needs rows
/// that do not overlap, so each of these products takes only every second, third ... pixel:
///
///     x          |rgb|rgb|rgb|rgb|rgb|rgb|rgb|rgb|       3 taps, stride 1
///     product 0  |pixel 0....|pixel 3....| pixel 6 ...
///     product 1      |pixel 1....|pixel 4....| ...
///     product 2          |pixel 2....|pixel 5....| ...
///
/// Pixels at the left and right borders, which do not see all taps of the row, have one product per tap.
GPIPE_COLD GPIPE_INLINE convolution_plan plan_weight_gradient(const convolution_shape& s, const convolution_axis& rows,
                                                              const convolution_axis& columns, int in_width,
                                                              int out_width, int element_bytes) {
  constexpr int max_pixels = convolution_plan::max_pixels;
  const bool joins_samples = rows.count * columns.count <= max_pixels;
  const int max_rows = joins_samples ? rows.count : 14;
  convolution_plan plan;
  if (joins_samples) plan.together = max_pixels / (rows.count * columns.count);
  const auto span_of = [](const convolution_axis& axis, const convolution_axis::tap& tap) {
    convolution_span span{axis.count, 0, {}};
    for (int t = 0; t < axis.count; ++t)
      if (axis.sees(tap, t)) span.first = (std::min)(span.first, t), span.end = t + 1;
    return span;
  };
  // Adds the products of rows [top, bottom) and columns [left, right) of dy, for `joined` taps from (i, j) on.
  using tap = convolution_axis::tap;
  const auto add = [&](const tap& i, const tap& j, int joined, int top, int bottom, int left, int right) {
    const int pixel_step = (joined + columns.in_step - 1) / columns.in_step;
    while (left < right) {
      const int pieces = (right - left + max_pixels - 1) / max_pixels, pixels = (right - left + pieces - 1) / pieces;
      for (int first = left; first < left + (std::min)(pixel_step, pixels); ++first) {
        convolution_plan::product product{};
        product.n = joined * s.group_in();
        product.k = (left + pixels - first + pixel_step - 1) / pixel_step;
        product.a_stride = pixel_step * s.out_channels;
        product.b_stride = pixel_step * columns.in_step * s.in_channels;
        product.c_stride = s.out_channels;
        product.a = (std::ptrdiff_t{top} * out_width + first) * s.out_channels;
        product.b = (std::ptrdiff_t{top * rows.in_step + i.offset} * in_width + first * columns.in_step + j.offset) *
                    s.in_channels;
        product.c = (std::ptrdiff_t{i.kernel} * s.kernel_width + j.kernel) * s.group_in() * s.out_channels;
        product.first_tap = static_cast<int>(plan.a_taps.size());
        product.taps = bottom - top;
        for (int r = 0; r < product.taps; ++r) {
          const auto row = static_cast<unsigned long long>(r) * static_cast<unsigned long long>(element_bytes);
          plan.a_taps.push_back(row * static_cast<unsigned long long>(std::ptrdiff_t{out_width} * s.out_channels));
          plan.b_taps.push_back(
              row * static_cast<unsigned long long>(std::ptrdiff_t{rows.in_step} * in_width * s.in_channels));
        }
        plan.products.push_back(product);
      }
      left += pixels;
    }
  };
  convolution_span inside{0, columns.count, {}};  // the columns that see all taps of a row
  for (const tap& j : columns.taps) {
    const convolution_span column_span = span_of(columns, j);
    inside.first = (std::max)(inside.first, column_span.first), inside.end = (std::min)(inside.end, column_span.end);
  }
  const bool joins_taps = s.groups == 1 && s.in_channels < 8 && s.in_channels * s.out_channels > 1 &&
                          s.dilation_width == 1 && !joins_samples && inside.first < inside.end;
  for (int row = 0; row < rows.count; row += max_rows)  // all taps read these rows of dy while they are in the cache
    for (const tap& i : rows.taps) {
      const convolution_span row_span = span_of(rows, i);
      const int top = (std::max)(row, row_span.first), bottom = (std::min)(row + max_rows, row_span.end);
      if (top >= bottom) continue;
      if (joins_taps) add(i, columns.taps.front(), s.kernel_width, top, bottom, inside.first, inside.end);
      for (const tap& j : columns.taps) {
        const convolution_span column_span = span_of(columns, j);
        add(i, j, 1, top, bottom, column_span.first, joins_taps ? inside.first : column_span.end);
        if (joins_taps) add(i, j, 1, top, bottom, inside.end, column_span.end);
      }
    }
  return plan;
}

GPIPE_COLD GPIPE_INLINE convolution_plan plan_convolution(const convolution_shape& s, convolution_pass pass, int strip,
                                                          int element_bytes) {
  // With one tap, stride 1 and no padding, an image is one row of pixels.
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
    for (int row_phase = 0; row_phase < (std::min)(s.stride_height, in_height); ++row_phase)
      for (int column_phase = 0; column_phase < (std::min)(s.stride_width, in_width); ++column_phase)
        planner.add(rows_of(row_phase), columns_of(column_phase));
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
  const bool one_tap = s.taps() == 1 && s.padding_height == 0 && s.padding_width == 0;
  packed_chunks result;
  result.out_width = width;
  result.step_down = one_tap ? s.stride_height : 1, result.step_across = one_tap ? s.stride_width : 1;
  result.in_width = one_tap ? width : s.in_width;
  const int stride = one_tap ? 1 : s.stride_height, extent = one_tap ? height : s.in_height;
  const int kernel_extent = one_tap ? 1 : (s.kernel_height - 1) * s.dilation_height + 1;
  const auto rows_of_x = [&](int first, int rows, int& begin) {
    begin = (std::max)(0, first * stride - s.padding_height);
    const int end = (std::min)(extent, (first + rows - 1) * stride - s.padding_height + kernel_extent);
    return (std::max)(0, end - begin);
  };
  const auto fits = [&](int rows, int samples) {
    int begin, max_rows = 0;
    for (int first = 0; first < height; first += rows)
      max_rows = (std::max)(max_rows, rows_of_x(first, (std::min)(rows, height - first), begin));
    return samples * rows * width <= packed_chunks::pixels &&
           samples * max_rows * result.in_width * panel * element_bytes <= packed_chunks::panels_bytes;
  };
  // A copy does not pay if x has few channels, which are contiguous already, or if the last strip is one vector.
  const bool has_few_channels = s.group_in() < panel || (s.group_in() <= 2 * panel && s.group_out() <= strip);
  const int last_strip = (s.group_out() - 1) % strip + 1;
  if (has_few_channels || last_strip * element_bytes <= 64 || !fits(1, 1)) return result;
  result.rows = height;
  while (!fits(result.rows, 1)) result.rows = (result.rows + 1) / 2;
  if (result.rows == height)
    while (fits(height, result.together + 1)) ++result.together;
  for (int row = 0; row < height; row += result.rows) {
    packed_chunks::chunk chunk{row, 0, 0, 0, 0};
    chunk.in_rows = rows_of_x(row, (std::min)(result.rows, height - row), chunk.in_row);
    result.chunks.push_back(chunk);
  }
  return result;
}

GPIPE_COLD GPIPE_INLINE convolution_plan plan_packed(const convolution_shape& s, packed_chunks& chunks, int n, int m,
                                                     int element_bytes) {
  const bool one_tap = s.taps() == 1 && s.padding_height == 0 && s.padding_width == 0;
  const int step_y = one_tap ? 1 : s.stride_height, step_x = one_tap ? 1 : s.stride_width;
  const int height = s.out_height(), in_height = one_tap ? height : s.in_height;
  convolution_plan plan;
  const auto bytes = [&](std::ptrdiff_t elements) {
    return static_cast<unsigned long long>(elements) * static_cast<unsigned long long>(element_bytes);
  };
  for (packed_chunks::chunk& chunk : chunks.chunks) {
    chunk.first = static_cast<int>(plan.products.size());
    const int rows = (std::min)(chunks.rows, height - chunk.row);
    for (int i = 0; i < s.kernel_height; ++i)
      for (int j = 0; j < s.kernel_width; ++j) {
        // The rows [top, bottom) and columns [left, right) of dy whose tap is in the image.
        const int shift_y = i * s.dilation_height - s.padding_height, shift_x = j * s.dilation_width - s.padding_width;
        int top = chunk.row, bottom = chunk.row + rows, left = 0, right = chunks.out_width;
        while (top < bottom && top * step_y + shift_y < 0) ++top;
        while (top < bottom && (bottom - 1) * step_y + shift_y >= in_height) --bottom;
        while (left < right && left * step_x + shift_x < 0) ++left;
        while (left < right && (right - 1) * step_x + shift_x >= chunks.in_width) --right;
        if (top == bottom || left == right) continue;
        convolution_plan::product product{};
        product.n = n;
        product.k = one_tap ? rows * chunks.out_width : right - left;  // the pixels of all rows are contiguous
        product.a_stride = m;
        product.b_stride = step_x * n;
        product.c_stride = s.out_channels;
        product.a = (std::ptrdiff_t{top - chunk.row} * chunks.out_width + left) * m;
        product.b =
            (std::ptrdiff_t{top * step_y + shift_y - chunk.in_row} * chunks.in_width + left * step_x + shift_x) * n;
        product.c = (std::ptrdiff_t{i} * s.kernel_width + j) * s.group_in() * s.out_channels;
        product.first_tap = static_cast<int>(plan.a_taps.size());
        product.taps = one_tap ? 1 : bottom - top;
        for (int sample = 0; sample < chunks.together; ++sample)
          for (int row = 0; row < product.taps; ++row) {
            plan.a_taps.push_back(bytes((std::ptrdiff_t{sample} * rows + row) * chunks.out_width * m));
            plan.b_taps.push_back(bytes((std::ptrdiff_t{sample} * chunk.in_rows + row * step_y) * chunks.in_width * n));
          }
        plan.products.push_back(product);
      }
    chunk.end = static_cast<int>(plan.products.size());
  }
  return plan;
}

}  // namespace gpipe::host::detail
