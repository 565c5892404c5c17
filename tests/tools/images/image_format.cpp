// sanitizers: address

#include <gpipe/tools/images/image_format.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/image_files.hpp"

using namespace gpipe;
using namespace std::string_literals;

namespace {

image_set read(const std::string& text) { return image_files::decoded(pnm_format, text); }
void rejects(const char* what, const std::string& text) { image_files::refused(pnm_format, what, text); }

}  // namespace

TEST_CASE("grey and coloured images, as bytes and as text, are the same numbers") {
  const image_set grey = read("P5 3 2 255\n\x00\x33\xff\x01\x02\x03"s);
  CHECK(grey.channels == 1);
  CHECK(grey.height == 2);
  CHECK(grey.width == 3);
  CHECK(grey.pixels == std::vector<float>{0, 0.2F, 1, 1 / 255.0F, 2 / 255.0F, 3 / 255.0F});
  CHECK(read("P2\n3 2\n255\n0 51 255\n1 2 3\n").pixels == grey.pixels);
  const image_set coloured = read("P6\n1 2\n255\n\x00\xff\x00\xff\x00\x33"s);
  CHECK(coloured.channels == 3);
  CHECK(coloured.pixels == std::vector<float>{0, 1, 0, 1, 0, 0.2F});
  CHECK(read("P3 1 2 255 0 255 0 255 0 51").pixels == coloured.pixels);
}

TEST_CASE("numbers of two bytes come with the higher byte first, and other largest numbers scale") {
  CHECK(read("P5 2 1 65535\n\x80\x00\xff\xff"s).pixels == std::vector<float>{32768.0F / 65535.0F, 1});
  CHECK(read("P5 1 1 256\n\x00\x80"s).pixels == std::vector<float>{0.5F});
  CHECK(read("P2 3 1 4 0 1 4").pixels == std::vector<float>{0, 0.25F, 1});
  CHECK(read("P5 1 1 1\n\x01"s).pixels == std::vector<float>{1});
}

TEST_CASE("comments may stand in a header and between numbers of text, and a number may be white space") {
  CHECK(read("P5\n# by hand\n1 # wide\n1\n255\n\x33"s).pixels == std::vector<float>{0.2F});
  CHECK(read("P2 # grey\n2 1\n255 # largest\n0 # black\n255\n# the end").pixels == std::vector<float>{0, 1});
  CHECK(read("P5 1 1 255\n\x20"s).pixels == std::vector<float>{32 / 255.0F});
  CHECK(read("P5 1 1 255\n#"s).pixels == std::vector<float>{35 / 255.0F});
}

TEST_CASE("a file that is not exactly its header's image is refused, with its path") {
  rejects("is of the kind P4; give a PGM", "P4 8 1\n\x01"s);
  rejects("is of the kind P7", "P7\nWIDTH 1");
  rejects("has no width at byte 2", "P5");
  rejects("has no height at byte", "P5 3 # a comment without an end");
  rejects("has no width at byte", "P5 -3 2 255\n");
  rejects("has a width above 1000000", "P5 99999999999999999999999999 1 255\n\x01"s);
  rejects("has 0 x 2 pixels", "P5 0 2 255\n");
  rejects("has 3 x 0 pixels", "P2 3 0 255\n");
  rejects("has 0 as its largest number", "P5 1 1 0\n\x00"s);
  rejects("has a largest number above 65535", "P5 1 1 65536\n\x00\x00"s);
  rejects("has no white space behind its header", "P5 1 1 255");
  rejects("has 5 bytes of numbers, but 3 x 2 pixels of 1 channels need 6", "P5 3 2 255\n12345");
  rejects("but 1000000 x 1000000 pixels of 3 channels need 3000000000000", "P6 1000000 1000000 255\n12345");
  rejects("pixels of 3 channels need 6000000000000", "P3 1000000 1000000 255\n1 2 3");
  rejects("has 1 bytes behind its 1 x 1 pixels", "P5 1 1 255\n12");
  rejects("has 1 bytes behind its 1 x 1 pixels", "P2 1 1 255 1 2");
  rejects("has the number 11, above its largest, 10", "P5 1 1 10\n\x0b"s);
  rejects("has a number above 10", "P2 1 1 10 11");
  rejects("has no number at byte", "P2 2 1 10 1 x");
}

TEST_CASE("files cut short or with changed bytes do no harm") {
  image_files::survives_changes(pnm_format, "P5 3 2 255\n\x00\x33\xff\x01\x02\x03"s, 3000);
  image_files::survives_changes(pnm_format, "P3\n# c\n2 1\n300\n1 22 300 4 5 6"s, 3000);
}
