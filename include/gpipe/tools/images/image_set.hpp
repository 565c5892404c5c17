#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

/// The mean and the standard deviation of each channel. A trained network keeps them: its later images are normalized
/// by the same numbers.
struct channel_norm {
  std::vector<float> mean{}, deviation{};
};

/// The numbers of ImageNet, with which torchvision's networks are trained.
inline channel_norm imagenet_norm() { return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}}; }

/// Images of one size, as numbers, with labels if these are known.
struct image_set {
  int channels = 0, height = 0, width = 0;
  std::vector<float> pixels{};         ///< a row of height x width x channels for each image, 0 to 1 as read
  std::vector<std::int32_t> labels{};  ///< the class of each image, from 0; empty: unknown
  std::vector<std::string> classes{};  ///< the name of each class; empty: unknown

  /// Numbers in an image.
  std::size_t row() const {
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  int count() const { return row() == 0 ? 0 : static_cast<int>(pixels.size() / row()); }

  /// Makes every image `to_height` x `to_width` pixels: PyTorch's interpolate, with mode = "bilinear" and antialias =
  /// True. A pixel is a mean of the old ones around it, whose weights fall linearly with the distance: over two old
  /// pixels where the image grows, over two new ones where it shrinks. The image's shape is not kept. Throws `error` if
  /// an extent is not in 1 ... 65536.
  void resize(int to_height, int to_width);
  /// Mean and deviation over all pixels of all images. Use the training set's values for the test set, too.
  channel_norm norm() const;
  /// x = (x - mean) / deviation. Throws `error` unless there is one of each per channel, with deviations above 0.
  void normalize(const channel_norm& scale);
  /// The fields "inputs", a row for each image as `input_image<float, channels, height, width>` takes it, and
  /// "labels".
  dataset data() const;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/images/image_set-inl.hpp>
#endif
