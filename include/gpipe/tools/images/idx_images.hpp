#pragma once

#include <cstdint>
#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/tools/data/idx.hpp>
#include <gpipe/tools/images/image_set.hpp>

namespace gpipe {

/// Reads grey images and their labels in MNIST's format: bytes of the extents {images, rows, columns} and {images}.
/// Throws `error` if a file has others.
GPIPE_COLD inline image_set read_idx_images(const std::string& images_path, const std::string& labels_path) {
  const idx_array images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.extents().size() != 3 || images.type() != 8)
    throw error(detail::concat({"has ", images.extents().size(), " extents and numbers of type ", images.type()}),
                "give bytes (type 8) of three extents: images, rows, columns", {.file = images_path});
  if (labels.extents().size() != 1 || labels.type() != 8)
    throw error(detail::concat({"has ", labels.extents().size(), " extents and numbers of type ", labels.type()}),
                "give bytes (type 8) of one extent: the label of each image", {.file = labels_path});
  if (labels.rows() != images.rows())
    throw error(detail::concat({"has ", labels.rows(), " labels for ", images.rows(), " images"}),
                "give one label for each image", {.file = labels_path});
  image_set set{
      .channels = 1, .height = static_cast<int>(images.extents()[1]), .width = static_cast<int>(images.extents()[2])};
  set.pixels = images.as<float>();
  for (float& x : set.pixels) x /= 255.0F;
  set.labels = labels.as<std::int32_t>();
  return set;
}

}  // namespace gpipe
