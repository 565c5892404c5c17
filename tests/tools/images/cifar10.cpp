// sanitizers: address

#include <gpipe/tools/images/cifar10.hpp>

#include <doctest/doctest.h>

#include <string>

#include "support/image_files.hpp"
#include "support/temporary_folder.hpp"

using namespace gpipe;

namespace {

/// An image whose red, green and blue are the pixel's number and these offsets, modulo 256.
std::string image(int label, int red, int green, int blue) {
  std::string text(1, static_cast<char>(label));
  for (const int of : {red, green, blue})
    for (int i = 0; i < 1024; ++i) text += static_cast<char>(of + i);
  return text;
}

}  // namespace

TEST_CASE("planes of red, green and blue become pixels of three neighbours") {
  const temporary_folder folder;
  const std::string one = folder.beside("one.bin"), two = folder.beside("two.bin");
  temporary_folder::write_file(one, image(3, 0, 10, 20) + image(0, 1, 1, 1));
  temporary_folder::write_file(two, image(9, 5, 6, 7));
  const image_set set = read_cifar10({one, two});
  CHECK(set.count() == 3);
  CHECK(set.labels == std::vector<std::int32_t>{3, 0, 9});
  CHECK(set.classes[9] == "truck");
  for (const int i : {0, 1, 255, 256, 1023})
    for (const int c : {0, 1, 2})
      CHECK(set.pixels[static_cast<std::size_t>(3 * i + c)] == static_cast<float>((i + 10 * c) % 256) / 255.0F);
  CHECK(set.pixels[2 * 3072 + 2] == 7 / 255.0F);
}

TEST_CASE("files that are no whole images of ten classes are refused, with their path") {
  const temporary_folder folder;
  const std::string path = folder.beside("data.bin");
  const auto rejects = [&](const char* what, const std::string& text) {
    temporary_folder::write_file(path, text);
    CHECK_THROWS_WITH_AS(read_cifar10({path}), doctest::Contains(what), error);
    CHECK_THROWS_WITH_AS(read_cifar10({path}), doctest::Contains("data.bin"), error);
  };
  rejects("has 3072 bytes, which are not whole images of 3073", image(1, 2, 3, 4).substr(1));
  rejects("this one may be of CIFAR-100", "x" + image(1, 2, 3, 4));
  rejects("has the label 10 at image 1", image(9, 2, 3, 4) + image(10, 2, 3, 4));
  rejects("is empty", "");
  CHECK_THROWS_WITH_AS(read_cifar10({}), "there is no file of CIFAR-10; give data_batch_1.bin, say", error);
  CHECK_THROWS_WITH_AS(read_cifar10({folder.beside("none")}), doctest::Contains("No such file"), error);
}
