#pragma once

#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/file/mapped_file.hpp>
#include <gpipe/train/data/pictures/picture_format.hpp>
#include <gpipe/train/data/pictures/pnm.hpp>

namespace gpipe {

struct picture_options {
  /// 1: grey, 0.299 red + 0.587 green + 0.114 blue. 3: grey three times. 0: as in the files, which then agree.
  int channels = 0;
  std::vector<picture_format> formats{pnm_format};  ///< `png_format` is in <gpipe/png.hpp>
};

/// Reads a file of one picture. Its first bytes say which format it has.
picture_set read_picture(const std::string& path, const picture_options& how = {});

/// Reads a folder whose folders are classes, both in the order of their names; files and names that begin with a dot
/// are skipped beside the classes:
///
///     flowers/daisy/01.ppm     label 0
///     flowers/daisy/02.ppm     label 0
///     flowers/rose/01.ppm      label 1
///
/// All pictures have one size. Throws `error` otherwise, naming file and both sizes, and for a class without a picture.
picture_set read_picture_folders(const std::string& path, const picture_options& how = {});

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/data/pictures/picture_folders-inl.hpp>
#endif
