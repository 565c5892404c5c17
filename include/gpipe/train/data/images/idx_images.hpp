#pragma once

#include <string>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/train/data/idx.hpp>
#include <gpipe/train/data/pictures/picture_set.hpp>

namespace gpipe {

/// Reads grey pictures and their labels as MNIST has them: bytes of the extents {pictures, rows, columns} and
/// {pictures}. Throws `error` if a file has others.
picture_set read_idx_pictures(const std::string& pictures_path, const std::string& labels_path);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/data/pictures/idx_pictures-inl.hpp>
#endif
