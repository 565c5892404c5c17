#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/tools/images/image_set.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

namespace detail {

/// The weights of the old pixels in each new one, along one extent:
///
///     5 to 3:   old    |   0   |   1   |   2   |   3   |   4   |
///               new    |     0     .     1     .     2         |      the weights of pixel 1:  a tent over 0 ... 4
struct resized_extent {
  struct tent {
    std::size_t first;
    std::vector<double> weights{};  ///< their sum is 1
  };
  std::vector<tent> pixels{};

  GPIPE_COLD resized_extent(int old_size, int new_size) {
    const double scale = static_cast<double>(old_size) / new_size, reach = scale > 1 ? scale : 1;
    for (int i = 0; i < new_size; ++i) {
      const double center = scale * (i + 0.5);
      const int first = (std::max)(static_cast<int>(center - reach + 0.5), 0),
                end = (std::min)(static_cast<int>(center + reach + 0.5), old_size);
      tent pixel{static_cast<std::size_t>(first)};
      double sum = 0;
      for (int j = first; j < end; ++j) {
        const double off = std::fabs(j + 0.5 - center) / reach;
        pixel.weights.push_back(off < 1 ? 1 - off : 0);
        sum += pixel.weights.back();
      }
      for (double& weight : pixel.weights) weight /= sum;
      pixels.push_back(std::move(pixel));
    }
  }
  /// The new values of one row or column. Both old and new values are `step` apart.
  template <class From, class To>
  void apply(const From* old_values, To* new_values, std::size_t step) const {
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < pixels[i].weights.size(); ++j)
        sum = multiply_add(pixels[i].weights[j], static_cast<double>(old_values[(pixels[i].first + j) * step]), sum);
      new_values[i * step] = static_cast<To>(sum);
    }
  }
};

}  // namespace detail

GPIPE_COLD GPIPE_INLINE void image_set::resize(int to_height, int to_width) {
  constexpr int max_extent = 1 << 16;
  if (to_height < 1 || to_width < 1 || to_height > max_extent || to_width > max_extent)
    detail::throw_error({"images are to become ", to_width, " x ", to_height, " pixels"},
                        {"choose extents of 1 to ", max_extent});
  if (to_height == height && to_width == width) return;
  const detail::resized_extent across(width, to_width), down(height, to_height);
  const auto C = static_cast<std::size_t>(channels), old_row = static_cast<std::size_t>(width) * C,
             new_row = static_cast<std::size_t>(to_width) * C, rows = static_cast<std::size_t>(height);
  const auto images = static_cast<std::size_t>(count());
  std::vector<double> wide(rows * new_row);  // one image, after its rows
  std::vector<float> resized(images * static_cast<std::size_t>(to_height) * new_row);
  for (std::size_t n = 0; n < images; ++n) {
    for (std::size_t y = 0; y < rows; ++y)
      for (std::size_t c = 0; c < C; ++c)
        across.apply(pixels.data() + n * row() + y * old_row + c, wide.data() + y * new_row + c, C);
    for (std::size_t x = 0; x < new_row; ++x)
      down.apply(wide.data() + x, resized.data() + n * static_cast<std::size_t>(to_height) * new_row + x, new_row);
  }
  pixels = std::move(resized);
  height = to_height, width = to_width;
}

GPIPE_COLD GPIPE_INLINE channel_norm image_set::norm() const {
  const auto C = static_cast<std::size_t>(channels);
  if (C == 0 || pixels.empty()) detail::throw_error({"there are no images to measure"}, {"read some"});
  const double n = static_cast<double>(pixels.size()) / static_cast<double>(C);
  std::vector<double> mean(C), square(C);
  for (std::size_t i = 0; i < pixels.size(); ++i) mean[i % C] += static_cast<double>(pixels[i]);
  for (double& m : mean) m /= n;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double d = static_cast<double>(pixels[i]) - mean[i % C];
    square[i % C] = detail::multiply_add(d, d, square[i % C]);
  }
  channel_norm found;
  for (std::size_t c = 0; c < C; ++c) {
    found.mean.push_back(static_cast<float>(mean[c]));
    found.deviation.push_back(static_cast<float>(std::sqrt(square[c] / n)));
  }
  return found;
}

GPIPE_COLD GPIPE_INLINE void image_set::normalize(const channel_norm& scale) {
  const auto C = static_cast<std::size_t>(channels);
  if (scale.mean.size() != C || scale.deviation.size() != C)
    detail::throw_error({"there are ", scale.mean.size(), " means and ", scale.deviation.size(),
                         " deviations, and images of ", channels, " channels"},
                        {"give one of each for each channel"});
  for (std::size_t c = 0; c < C; ++c)
    if (!(scale.deviation[c] > 0) || !detail::is_finite(scale.deviation[c]) || !detail::is_finite(scale.mean[c]))
      detail::throw_error({"channel ", c, " has the deviation ", std::to_string(scale.deviation[c]), " and the mean ",
                           std::to_string(scale.mean[c])},
                          {"give finite numbers and a deviation above 0; 1 leaves a channel's scale"});
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = (pixels[i] - scale.mean[i % C]) / scale.deviation[i % C];
}

GPIPE_COLD GPIPE_INLINE dataset image_set::data() const {
  dataset result;
  result.with("inputs", row(), pixels);
  if (!labels.empty()) result.with("labels", 1, labels);
  return result;
}

}  // namespace gpipe
