#pragma once

#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/tools/images/image_format.hpp>

namespace gpipe {

struct image_options {
  /// 1: grey, 0.299 red + 0.587 green + 0.114 blue. 3: grey three times. 0: as in the files, which then agree.
  int channels = 0;
  /// `png_format` is in <gpipe/png.hpp>, `jpeg_format` in <gpipe/jpeg.hpp>.
  std::vector<image_format> formats{pnm_format};
  int height = 0, width = 0;  ///< every image is resized to these, as by `image_set::resize`; 0: as in the files
};

/// Reads a file of one image. Its first bytes determine the format.
image_set read_image(const std::string& path, const image_options& options = {});

/// Reads a folder whose folders are classes, both in the order of their names. Files next to the classes and names that
/// begin with a dot are skipped:
///
///     flowers/daisy/01.ppm     label 0
///     flowers/daisy/02.ppm     label 0
///     flowers/rose/01.ppm      label 1
///
/// Without `height` and `width` all images have one size. Throws `error` otherwise, naming file and both sizes, and for
/// a class without an image.
image_set read_image_folders(const std::string& path, const image_options& options = {});

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/images/image_folders-inl.hpp>
#endif
