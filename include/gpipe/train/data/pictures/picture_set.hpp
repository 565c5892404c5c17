#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

/// The mean and the standard deviation of each channel. What a network was trained with belongs to it: its later
/// pictures are normalized by the same numbers.
struct channel_norm {
  std::vector<float> mean{}, deviation{};
};

/// ImageNet's, with which torchvision's networks are trained.
inline channel_norm imagenet_norm() { return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}; }

/// Pictures of one size, as numbers, with labels if these are known.
struct picture_set {
  int channels = 0, height = 0, width = 0;
  std::vector<float> pixels{};         ///< a row of height x width x channels for each picture, 0 to 1 as read
  std::vector<std::int32_t> labels{};  ///< the class of each picture, from 0; empty: unknown
  std::vector<std::string> classes{};  ///< the name of each class; empty: unknown

  /// Numbers in a picture.
  std::size_t row() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  int count() const { return row() == 0 ? 0 : static_cast<int>(pixels.size() / row()); }

  /// Mean and deviation over all pixels of all pictures. Take those of the training's part for the test's part, too.
  channel_norm norm() const;
  /// x = (x - mean) / deviation. Throws `error` if there are not as many as channels, or if a deviation is not above 0.
  void normalize(const channel_norm& by);
  /// The fields "inputs", a row for each picture as `input_image<float, channels, height, width>` takes it, and
  /// "labels".
  dataset data() const;
};

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE channel_norm picture_set::norm() const {
  const auto C = static_cast<std::size_t>(channels);
  if (C == 0 || pixels.empty()) detail::throw_error({"there are no pictures to measure"}, {"read some"});
  const double n = static_cast<double>(pixels.size() / C);
  std::vector<double> mean(C), square(C);
  for (std::size_t i = 0; i < pixels.size(); ++i) mean[i % C] += static_cast<double>(pixels[i]);
  for (double& m : mean) m /= n;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double d = static_cast<double>(pixels[i]) - mean[i % C];
    square[i % C] += d * d;
  }
  channel_norm found;
  for (std::size_t c = 0; c < C; ++c) {
    found.mean.push_back(static_cast<float>(mean[c]));
    found.deviation.push_back(static_cast<float>(std::sqrt(square[c] / n)));
  }
  return found;
}

GPIPE_COLD GPIPE_INLINE void picture_set::normalize(const channel_norm& by) {
  const auto C = static_cast<std::size_t>(channels);
  if (by.mean.size() != C || by.deviation.size() != C)
    detail::throw_error({"there are ", by.mean.size(), " means and ", by.deviation.size(),
                         " deviations, and pictures of ", channels, " channels"},
                        {"give one of each for each channel"});
  for (std::size_t c = 0; c < C; ++c)
    if (!(by.deviation[c] > 0) || !std::isfinite(by.deviation[c]) || !std::isfinite(by.mean[c]))
      detail::throw_error({"channel ", c, " has the deviation ", std::to_string(by.deviation[c]), " and the mean ",
                           std::to_string(by.mean[c])},
                          {"give finite numbers and a deviation above 0; 1 leaves a channel's scale"});
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = (pixels[i] - by.mean[i % C]) / by.deviation[i % C];
}

GPIPE_COLD GPIPE_INLINE dataset picture_set::data() const {
  dataset all;
  all.with("inputs", row(), pixels);
  if (!labels.empty()) all.with("labels", 1, labels);
  return all;
}
#endif

}  // namespace gpipe
