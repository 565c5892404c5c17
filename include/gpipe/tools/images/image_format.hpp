#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <gpipe/tools/images/image_set.hpp>

namespace gpipe {

// change: an image format
/// A format of files with one image each. A program may add its own to `pnm_format` and `png_format`.
struct image_format {
  const char* name;
  /// Whether a file's first bytes are this format's.
  bool (*recognizes)(std::span<const std::byte> file);
  /// Decodes one image. The file may have any content; an error includes its path.
  image_set (*decode)(std::span<const std::byte> file, const std::string& path);
};

}  // namespace gpipe
