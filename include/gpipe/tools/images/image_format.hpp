#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
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

/// Decodes an image by a class that reads it with a library, such as libpng. A small file with large extents is refused
/// before they are allocated: a byte of the file is at most `max_expansion` bytes of pixels.
template <class Reading>
image_set decode_by(std::span<const std::byte> file, const std::string& path) {
  Reading reading(file);
  const std::string name = Reading::name;
  const auto fail = [&](const std::string& wrong) {
    throw error(wrong, "give a whole " + name + " file", {.file = path});
  };
  if (!reading.read_header()) fail("is no " + name + " that can be read: " + reading.message());
  const std::size_t rows = reading.height(), row_bytes = reading.row_bytes();
  image_set image{
      .channels = reading.channels(), .height = static_cast<int>(rows), .width = static_cast<int>(reading.width())};
  if (reading.packed_row_bytes() * rows > Reading::max_expansion * file.size())
    fail(concat({"has ", file.size(), " bytes, too few for ", image.width, " x ", image.height, " pixels"}));
  std::vector<unsigned char> bytes(row_bytes * rows);
  std::vector<unsigned char*> starts(rows);
  for (std::size_t y = 0; y < rows; ++y) starts[y] = bytes.data() + y * row_bytes;
  if (!reading.read_pixels(starts.data())) fail("is no " + name + " that can be read: " + reading.message());
  image.pixels.resize(image.row());
  for (std::size_t i = 0; i < image.row(); ++i)
    image.pixels[i] = reading.bits() == 16 ? static_cast<float>(bytes[2 * i] << 8 | bytes[2 * i + 1]) / 65535.0F
                                           : static_cast<float>(bytes[i]) / 255.0F;
  return image;
}

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
