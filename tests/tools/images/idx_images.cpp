// sanitizers: address

#include <gpipe/tools/images/idx_images.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/image_files.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;
using namespace std::string_literals;

TEST_CASE("images and labels of two IDX files belong together") {
  const temporary_folder folder;
  const std::string images = folder.beside("images.idx"), labels = folder.beside("labels.idx");
  const auto write = [&](const std::string& of_images, const std::string& of_labels) {
    temporary_folder::write_file(images, of_images);
    temporary_folder::write_file(labels, of_labels);
  };
  const std::string two = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x03\x00\x33\xff\x01\x02\x03"s;
  write(two, "\0\0\x08\x01\0\0\0\x02\x07\x09"s);
  const image_set set = read_idx_images(images, labels);
  CHECK(set.count() == 2);
  CHECK(set.channels == 1);
  CHECK(set.height == 1);
  CHECK(set.width == 3);
  CHECK(set.pixels == std::vector<float>{0, 0.2F, 1, 1 / 255.0F, 2 / 255.0F, 3 / 255.0F});
  CHECK(set.labels == std::vector<std::int32_t>{7, 9});

  const auto refused = [&](const char* what) {
    CHECK_THROWS_WITH_AS(read_idx_images(images, labels), doctest::Contains(what), error);
  };
  write(two, "\0\0\x08\x01\0\0\0\x01\x07"s);
  refused("has 1 labels for 2 images");
  write(two, "\0\0\x08\x02\0\0\0\x02\0\0\0\x01\x07\x09"s);
  refused("has 2 extents and numbers of type 8; give bytes (type 8) of one extent: the label of each image");
  write(two, "\0\0\x0d\x01\0\0\0\x02\x7f\xc0\0\0\0\0\0\0"s);  // NaN is no label
  refused("has 1 extents and numbers of type 13");
  write("\0\0\x08\x01\0\0\0\x02\x07\x09"s, "\0\0\x08\x01\0\0\0\x02\x07\x09"s);
  refused("has 1 extents and numbers of type 8");
  write("\0\0\x0b\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x01"s, "\0\0\x08\x01\0\0\0\x01\x07"s);
  refused("has 3 extents and numbers of type 11");
}
