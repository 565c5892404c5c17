#pragma once

#include <cstdint>
#include <string>

#include <gpipe/train/data/pictures/idx_pictures.hpp>

namespace gpipe {

GPIPE_COLD GPIPE_INLINE picture_set read_idx_pictures(const std::string& pictures_path,
                                                      const std::string& labels_path) {
  const idx_array pictures = read_idx(pictures_path), labels = read_idx(labels_path);
  if (pictures.extents().size() != 3 || pictures.type() != 8)
    throw error(detail::concat({"has ", pictures.extents().size(), " extents and numbers of type ", pictures.type()}),
                "give bytes (type 8) of three extents: pictures, rows, columns", {.file = pictures_path});
  if (labels.extents().size() != 1 || labels.type() != 8)
    throw error(detail::concat({"has ", labels.extents().size(), " extents and numbers of type ", labels.type()}),
                "give bytes (type 8) of one extent: the label of each picture", {.file = labels_path});
  if (labels.rows() != pictures.rows())
    throw error(detail::concat({"has ", labels.rows(), " labels for ", pictures.rows(), " pictures"}),
                "give one label for each picture", {.file = labels_path});
  picture_set all{.channels = 1,
                  .height = static_cast<int>(pictures.extents()[1]),
                  .width = static_cast<int>(pictures.extents()[2])};
  all.pixels = pictures.as<float>();
  for (float& x : all.pixels) x /= 255.0F;
  all.labels = labels.as<std::int32_t>();
  return all;
}

}  // namespace gpipe
