// sanitizers: address

#include <gpipe/png.hpp>

#include <doctest/doctest.h>

#include <csetjmp>
#include <string>
#include <vector>

#include <gpipe/tools/images/image_folders.hpp>

#include "support/image_files.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;
using namespace std::string_literals;

namespace {

/// A PNG of these rows, by libpng itself.
std::string png(int width, int height, int bits, int type, std::vector<std::string> rows, bool interlaced = false) {
  std::string file;
  png_structp to = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(to);
  png_set_write_fn(
      to, &file,
      [](png_structp at, png_bytep from, std::size_t bytes) {
        static_cast<std::string*>(png_get_io_ptr(at))->append(reinterpret_cast<const char*>(from), bytes);
      },
      nullptr);
  png_set_IHDR(to, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bits, type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  const png_color colours[] = {{255, 0, 0}, {0, 51, 255}};
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(to, info, colours, 2);
  png_write_info(to, info);
  std::vector<png_bytep> starts;
  for (std::string& row : rows) starts.push_back(reinterpret_cast<png_bytep>(row.data()));
  png_write_image(to, starts.data());
  png_write_end(to, nullptr);
  png_destroy_write_struct(&to, &info);
  return file;
}

image_set read(const std::string& text) { return image_files::decoded(png_format, text); }

const std::string small = png(2, 2, 8, PNG_COLOR_TYPE_RGB, {"\xff\x00\x33\x01\x02\x03"s, "\x04\x05\x06\x07\x08\x09"s});

}  // namespace

TEST_CASE("colours and greys of every depth, palettes and interlaced images") {
  const image_set coloured = read(small);
  CHECK(coloured.channels == 3);
  CHECK(coloured.height == 2);
  CHECK(coloured.width == 2);
  CHECK(std::vector<float>(coloured.pixels.begin(), coloured.pixels.begin() + 3) == std::vector<float>{1, 0, 0.2F});
  CHECK(coloured.pixels[11] == 9 / 255.0F);
  CHECK(
      read(png(2, 2, 8, PNG_COLOR_TYPE_RGB, {"\xff\x00\x33\x01\x02\x03"s, "\x04\x05\x06\x07\x08\x09"s}, true)).pixels ==
      coloured.pixels);
  CHECK(read(png(3, 1, 8, PNG_COLOR_TYPE_GRAY, {"\x00\x33\xff"s})).pixels == std::vector<float>{0, 0.2F, 1});
  CHECK(read(png(2, 1, 16, PNG_COLOR_TYPE_GRAY, {"\x80\x00\xff\xff"s})).pixels ==
        std::vector<float>{32768.0F / 65535.0F, 1});
  CHECK(read(png(3, 1, 1, PNG_COLOR_TYPE_GRAY, {"\xa0"s})).pixels == std::vector<float>{1, 0, 1});
  const image_set palette = read(png(2, 1, 8, PNG_COLOR_TYPE_PALETTE, {"\x01\x00"s}));
  CHECK(palette.channels == 3);
  CHECK(palette.pixels == std::vector<float>{0, 0.2F, 1, 1, 0, 0});
}

TEST_CASE("an image of one bit a pixel is compressed far below a byte a pixel, and is read") {
  const std::vector<std::string> rows(1000, std::string(125, '\xff'));
  const std::string mask = png(1000, 1000, 1, PNG_COLOR_TYPE_GRAY, rows);
  CHECK(1032 * mask.size() < 1000 * 1000);
  const image_set white = read(mask);
  CHECK(white.pixels == std::vector<float>(1000 * 1000, 1));
  const image_set blue = read(png(1000, 1000, 1, PNG_COLOR_TYPE_PALETTE, rows));
  CHECK(blue.row() == 3 * 1000 * 1000);
  CHECK(blue.pixels[3 * 999'999 + 1] == 0.2F);
}

TEST_CASE("transparency is dropped, whatever it hides") {
  const image_set grey = read(png(2, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, {"\x33\x00\xff\x80"s}));
  CHECK(grey.channels == 1);
  CHECK(grey.pixels == std::vector<float>{0.2F, 1});
  CHECK(read(png(1, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, {"\x33\x00\xff\x00"s})).pixels == std::vector<float>{0.2F, 0, 1});
}

TEST_CASE("a folder may have images of several formats") {
  const temporary_folder folder;
  const std::string root = folder.beside("set");
  std::filesystem::create_directories(root + "/a");
  temporary_folder::write_file(root + "/a/1", png(2, 1, 8, PNG_COLOR_TYPE_GRAY, {"\x33\xff"s}));
  temporary_folder::write_file(root + "/a/2", "P2 2 1 255 0 51");
  CHECK(read_image_folders(root, {.formats = {png_format, pnm_format}}).pixels == std::vector<float>{0.2F, 1, 0, 0.2F});
}

TEST_CASE("a file that is cut short, changed or far too small for its extents is refused") {
  image_files::refused(png_format, "is no PNG that can be read: the file ends too early", small.substr(0, 20));
  image_files::refused(png_format, "the file ends too early", small.substr(0, small.size() - 20));
  image_files::refused(png_format, "the file ends too early", small.substr(0, 5));
  std::string as_text = small;
  as_text.erase(4, 1);  // \r\n became \n
  image_files::refused(png_format, "PNG file corrupted by ASCII conversion", as_text);
  std::string changed = small;
  changed[30] = static_cast<char>(changed[30] ^ 1);  // the header's check sum
  image_files::refused(png_format, "is no PNG that can be read", changed);
  // 60000 x 1 pixels in 50 bytes, with a right check sum.
  const std::string huge = png(60000, 1, 8, PNG_COLOR_TYPE_GRAY, {std::string(60000, '\0')});
  std::string few = small;
  few.replace(16, 17, huge, 16, 17);
  image_files::refused(png_format, "too few for 60000 x 1 pixels", few.substr(0, 50));
  image_files::survives_changes(png_format, small, 3000);
}
