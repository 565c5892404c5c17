#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/tools/data/generated_data.hpp>
#include <gpipe/train/data/dataset.hpp>

namespace gpipe {

/// The changes of a field's images in each epoch.
struct image_changes {
  int height, width, channels = 1;  ///< a row of the field has height x width pixels of `channels` neighbouring numbers
  int shift = 0;        ///< moved by -shift ... shift pixels in each direction: a random crop of a padded image
  bool mirror = false;  ///< left and right exchanged, in half of the cases
  float border = 0;     ///< the number that moves in
  std::uint64_t seed = 0;
  std::string field = "inputs";
  /// A field with a number for each pixel, such as a U-Net's labels, which moves with the image; 0 moves in. Empty:
  /// none.
  std::string mask{};
};

/// A dataset whose images are moved and mirrored differently in every epoch. The change of an image is a function of
/// (seed, epoch, sample), so a training has the same bits for every number of stages, and resumes exactly. One thread
/// makes the next batch while the step runs. The dataset must outlive it.
///
///     fit(training, augmented_images(train, {.height = 32, .width = 32, .channels = 3, .shift = 4, .mirror = true}))
class augmented_images final : public data_source {
 public:
  /// Throws `error` if the dataset has no such fields of floats, if their rows are no images of these extents, or if
  /// shift is not from 0 to the larger extent.
  augmented_images(const dataset& images, image_changes changes);
  augmented_images(const dataset&&, image_changes) = delete;

  int samples() const override { return source_.samples(); }
  std::unique_ptr<data_stream> open(const batch_order& order) const override { return source_.open(order); }

 private:
  generated_data source_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/images/augmented_images-inl.hpp>
#endif
