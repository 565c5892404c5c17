// sanitizers: address

#include <gpipe/tools/images/image_folders.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/image_files.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;
using namespace std::string_literals;

namespace {

/// A folder of two classes.
struct animals {
  temporary_folder folder;
  std::string root = folder.beside("animals");

  animals() {
    for (const char* of : {"/dog", "/cat"}) std::filesystem::create_directories(root + of);
    write("/dog/b.pgm", "P5 2 1 255\n\x33\xff"s);
    write("/dog/a.pgm", "P5 2 1 255\n\xff\x00"s);
    write("/cat/1.pgm", "P2 2 1 255 0 0");
  }
  void write(const std::string& name, const std::string& text) { temporary_folder::write_file(root + name, text); }
  void refused(const char* what, const char* where, const image_options& how = {}) {
    CHECK_THROWS_WITH_AS(read_image_folders(root, how), doctest::Contains(what), error);
    CHECK_THROWS_WITH_AS(read_image_folders(root, how), doctest::Contains(where), error);
  }
};

/// A format of one byte for each of two pixels.
constexpr image_format pair_format{
    "pair", [](std::span<const std::byte> file) { return file.size() == 3 && file[0] == std::byte{'!'}; },
    [](std::span<const std::byte> file, const std::string&) {
      return image_set{.channels = 1,
                       .height = 1,
                       .width = 2,
                       .pixels = {static_cast<float>(std::to_integer<int>(file[1])) / 255.0F,
                                  static_cast<float>(std::to_integer<int>(file[2])) / 255.0F}};
    }};

}  // namespace

TEST_CASE("folders are classes, both in the order of their names, and hidden or loose files are skipped") {
  animals here;
  here.write("/README", "text");
  here.write("/dog/.hidden", "text");
  std::filesystem::create_directories(here.root + "/.cache");
  std::filesystem::create_symlink("loop", here.root + "/loop");
  const image_set set = read_image_folders(here.root);
  CHECK(set.classes == std::vector<std::string>{"cat", "dog"});
  CHECK(set.labels == std::vector<std::int32_t>{0, 1, 1});
  CHECK(set.pixels == std::vector<float>{0, 0, 1, 0, 0.2F, 1});
  CHECK(set.height == 1);
  CHECK(set.width == 2);
}

TEST_CASE("grey images become coloured and coloured ones grey, if that is asked for") {
  animals here;
  here.write("/dog/c.ppm", "P6 2 1 255\n\xff\x00\x00\x00\x00\xff"s);
  here.refused("has 3 channels, and \"" /* the first image */, "dog/c.ppm");
  here.refused("has 1; set image_options::channels to 1 or 3", "cat/1.pgm");
  const image_set grey = read_image_folders(here.root, {.channels = 1});
  CHECK(grey.pixels[6] == 0.299F);
  CHECK(grey.pixels[7] == doctest::Approx(0.114));
  const image_set coloured = read_image_folders(here.root, {.channels = 3});
  CHECK(coloured.row() == 6);
  CHECK(coloured.pixels[2 * 6 + 2] == 0.2F);
  CHECK(coloured.pixels[3 * 6 + 5] == 1);
  here.refused("has 1 channels, and channels is 2", "choose channels 0, 1 or 3", {.channels = 2});
  here.refused("has 1 channels, and channels is -1", "choose channels 0, 1 or 3", {.channels = -1});
}

TEST_CASE("a program adds a format of its own") {
  animals here;
  here.write("/cat/2", "!\xff\x33");
  here.refused("has an image of an unknown format; those of image_options are PGM or PPM", "cat/2");
  const image_set set = read_image_folders(here.root, {.formats = {pnm_format, pair_format}});
  CHECK(set.labels == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(set.pixels[3] == 0.2F);

  constexpr image_format short_format{"short", pair_format.recognizes,
                                      [](std::span<const std::byte>, const std::string&) {
                                        return image_set{.channels = 1, .height = 1, .width = 2, .pixels = {1}};
                                      }};
  here.refused("has 1 numbers by format \"short\", and 2 x 1 pixels of 1 channels", "cat/2",
               {.formats = {pnm_format, short_format}});
}

TEST_CASE("a folder that is not classes of images of one size is refused, naming the file") {
  animals here;
  here.write("/dog/c.pgm", "P5 1 3 255\nabc");
  here.refused("has 1 x 3 pixels, and \"", "dog/c.pgm");
  here.refused("has 2 x 1; resize all by image_options{.height = 1, .width = 2}", "cat/1.pgm");
  CHECK(read_image_folders(here.root, {.height = 2, .width = 3}).row() == 6);
  CHECK(read_image_folders(here.root, {.height = 1, .width = 2}).count() > 3);
  here.write("/dog/c.pgm", "P5 1 3 255\nab");
  here.refused("has 2 bytes of numbers", "dog/c.pgm");
  here.write("/dog/c.pgm", "");
  here.refused("is empty", "dog/c.pgm");
  here.write("/dog/c.pgm", "\x89PNG\r\n\x1a\n");
  here.refused("it is a PNG: include <gpipe/png.hpp>, link gpipe::png and add png_format", "dog/c.pgm");
  here.write("/dog/c.pgm", "\xff\xd8\xff\xe0");
  here.refused("it is a JPEG: include <gpipe/jpeg.hpp>, link gpipe::jpeg and add jpeg_format", "dog/c.pgm");
  std::filesystem::remove(here.root + "/dog/c.pgm");
  std::filesystem::create_directories(here.root + "/dog/puppies");
  here.refused("Is a directory", "dog/puppies");
  std::filesystem::remove(here.root + "/dog/puppies");
  std::filesystem::create_directories(here.root + "/bird");
  here.write("/bird/.hidden", "");
  here.refused("class \"bird\" has no image", "animals/bird");
  std::filesystem::remove_all(here.root);
  here.refused("cannot be listed: No such file or directory", "animals");
  std::filesystem::create_directories(here.root);
  here.refused("has no folders, which would be classes", "animals");
}
