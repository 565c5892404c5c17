#pragma once

#include <cstddef>
#include <span>
#include <string>

#include <gpipe/core/config.hpp>
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

namespace detail {

/// Whether a file begins as a portable anymap: P and a digit.
inline bool is_pnm(std::span<const std::byte> file) {
  return file.size() >= 2 && file[0] == std::byte{'P'} && file[1] >= std::byte{'1'} && file[1] <= std::byte{'7'};
}
image_set decode_pnm(std::span<const std::byte> file, const std::string& path);

}  // namespace detail

/// PGM (grey) and PPM (red, green, blue) of Netpbm, with numbers as text or as one or two bytes:
///
///     P5 <width> <height> <largest>\n then height x width numbers      P2: the same as text
///     P6 <width> <height> <largest>\n then height x width x 3          P3: the same as text
///
/// A comment goes from # to the end of its line. A number becomes number / largest.
inline constexpr image_format pnm_format{"PGM or PPM", detail::is_pnm, detail::decode_pnm};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/images/image_format-inl.hpp>
#endif
