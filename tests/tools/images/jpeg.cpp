// sanitizers: address

#include <gpipe/jpeg.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <gpipe/tools/images/image_folders.hpp>

#include "support/image_files.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;

namespace {

/// A JPEG of this quality, by libjpeg itself: rows of pixels with 1, 3 or 4 numbers each.
std::string jpeg(int width, int height, J_COLOR_SPACE space, std::vector<unsigned char> pixels,
                 bool progressive = false) {
  jpeg_compress_struct to{};
  jpeg_error_mgr errors{};
  to.err = jpeg_std_error(&errors);
  jpeg_create_compress(&to);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&to, &memory, &bytes);
  to.image_width = static_cast<JDIMENSION>(width), to.image_height = static_cast<JDIMENSION>(height);
  to.in_color_space = space;
  to.input_components = space == JCS_GRAYSCALE ? 1 : space == JCS_RGB ? 3 : 4;
  jpeg_set_defaults(&to);
  jpeg_set_quality(&to, 100, TRUE);
  if (progressive) jpeg_simple_progression(&to);
  jpeg_start_compress(&to, TRUE);
  while (to.next_scanline < to.image_height) {
    JSAMPROW row = pixels.data() + to.next_scanline * to.image_width * static_cast<JDIMENSION>(to.input_components);
    jpeg_write_scanlines(&to, &row, 1);
  }
  jpeg_finish_compress(&to);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  jpeg_destroy_compress(&to);
  std::free(memory);
  return file;
}

/// Colours that change slowly, which a JPEG keeps.
std::vector<unsigned char> slope(int width, int height, int channels) {
  std::vector<unsigned char> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) pixels.push_back(static_cast<unsigned char>(40 + 3 * x + 2 * y + 20 * c));
  return pixels;
}

image_set read(const std::string& text) { return image_files::decoded(jpeg_format, text); }

void is_slope(const image_set& found, int width, int height, int channels) {
  REQUIRE(found.width == width);
  REQUIRE(found.height == height);
  REQUIRE(found.channels == channels);
  const auto want = slope(width, height, channels);
  REQUIRE(found.pixels.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    CHECK(std::fabs(found.pixels[i] - static_cast<float>(want[i]) / 255.0F) < 4 / 255.0F);
}

const std::string small = jpeg(19, 13, JCS_RGB, slope(19, 13, 3));

}  // namespace

TEST_CASE("colours and greys, of extents that no block divides, in one pass or in several") {
  is_slope(read(small), 19, 13, 3);
  is_slope(read(jpeg(19, 13, JCS_GRAYSCALE, slope(19, 13, 1))), 19, 13, 1);
  is_slope(read(jpeg(19, 13, JCS_RGB, slope(19, 13, 3), true)), 19, 13, 3);
  is_slope(read(jpeg(1, 1, JCS_RGB, slope(1, 1, 3))), 1, 1, 3);
}

TEST_CASE("a large image of one colour is read") {
  const image_set white = read(jpeg(1000, 900, JCS_GRAYSCALE, std::vector<unsigned char>(900'000, 255), true));
  CHECK(white.pixels == std::vector<float>(900'000, 1));
}

TEST_CASE("a folder may have images of several formats and sizes") {
  const temporary_folder folder;
  const std::string root = folder.beside("set");
  std::filesystem::create_directories(root + "/a");
  temporary_folder::write_file(root + "/a/1", small);
  temporary_folder::write_file(root + "/a/2", "P2 2 1 255 51 51");
  const image_options how{.channels = 1, .formats = {jpeg_format, pnm_format}, .height = 2, .width = 3};
  const image_set set = read_image_folders(root, how);
  CHECK(set.count() == 2);
  CHECK(set.row() == 6);
  CHECK(set.pixels[6] == doctest::Approx(0.2F));
}

TEST_CASE("a file that is cut short, changed, of four colours or far too small for its extents is refused") {
  image_files::refused(jpeg_format, "is no JPEG that can be read", small.substr(0, 20));
  image_files::refused(jpeg_format, "is no JPEG that can be read: Premature end of JPEG file",
                       small.substr(0, small.size() - 60));
  image_files::refused(jpeg_format, "is no JPEG that can be read",
                       jpeg(8, 8, JCS_CMYK, std::vector<unsigned char>(256, 9)));
  const std::size_t frame = small.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  std::string large = small;
  large.replace(frame + 5, 4, "\xea\x60\xea\x60");  // 60000 x 60000 pixels
  image_files::refused(jpeg_format, "too few for 60000 x 60000 pixels", large);
  image_files::survives_changes(jpeg_format, small, 3000);
}
