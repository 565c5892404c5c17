#pragma once

#include <string>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/tools/data/idx.hpp>
#include <gpipe/tools/images/image_set.hpp>

namespace gpipe {

/// Reads grey images and their labels in MNIST's format: bytes of the extents {images, rows, columns} and {images}.
/// Throws `error` if a file has others.
image_set read_idx_images(const std::string& images_path, const std::string& labels_path);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/images/idx_images-inl.hpp>
#endif
