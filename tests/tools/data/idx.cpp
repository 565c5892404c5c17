// sanitizers: address

#include <gpipe/tools/data/idx.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>

#include "support/checkpoints.hpp"

using namespace gpipe;

namespace {

idx_array read(std::initializer_list<int> bytes) {
  const checkpoints::memory_folder folder("idx");
  checkpoints::put(folder / "idx", std::string(bytes.begin(), bytes.end()));
  return read_idx(folder / "idx");
}

void rejects(const char* what, std::initializer_list<int> bytes) {
  CHECK_THROWS_WITH_AS(read(bytes), doctest::Contains(what), error);
}

}  // namespace

TEST_CASE("images and labels as MNIST has them") {
  const idx_array images = read({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 127, 128, 255, 1, 2});
  CHECK(images.extents() == std::vector<std::size_t>{2, 1, 3});
  CHECK(images.rows() == 2);
  CHECK(images.row() == 3);
  CHECK(images.as<float>() == std::vector<float>{0, 127, 128, 255, 1, 2});
  const idx_array labels = read({0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9});
  CHECK(labels.row() == 1);
  CHECK(labels.as<std::int32_t>() == std::vector<std::int32_t>{7, 0, 9});
}

TEST_CASE("the other types are signed and big-endian") {
  CHECK(read({0, 0, 9, 1, 0, 0, 0, 2, 0xff, 0x80}).as<std::int32_t>() == std::vector<std::int32_t>{-1, -128});
  CHECK(read({0, 0, 11, 1, 0, 0, 0, 2, 0x12, 0x34, 0xff, 0xfe}).as<float>() == std::vector<float>{0x1234, -2});
  CHECK(read({0, 0, 12, 1, 0, 0, 0, 1, 0x80, 0, 0, 1}).as<double>() == std::vector<double>{-2147483647.0});
  CHECK(read({0, 0, 13, 1, 0, 0, 0, 1, 0xc0, 0x20, 0, 0}).as<float>() == std::vector<float>{-2.5F});
  CHECK(read({0, 0, 14, 1, 0, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0}).as<double>() == std::vector<double>{1.5});
}

TEST_CASE("numbers that are no integers of a type are not read as that type") {
  CHECK(read({0, 0, 12, 1, 0, 0, 0, 1, 0, 0, 0, 255}).as<std::uint8_t>() == std::vector<std::uint8_t>{255});
  const auto refused = [](const idx_array& found, const char* what) {
    CHECK_THROWS_WITH_AS(found.as<std::uint8_t>(), doctest::Contains(what), error);
  };
  refused(read({0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 1, 0}),
          "element 1 is 256.000000, which is no whole number from 0 to 255; read the array as<float>()");
  refused(read({0, 0, 9, 1, 0, 0, 0, 1, 255}), "element 0 is -1.000000");
  refused(read({0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0}), "element 0 is 1.500000");
  refused(read({0, 0, 13, 1, 0, 0, 0, 1, 0x7f, 0xc0, 0, 0}), "element 0 is nan");
}

TEST_CASE("a file that is not exactly its header's array is refused") {
  rejects("has 3 bytes, and no header", {0, 0, 8});
  rejects("does not begin with two bytes of 0", {1, 0, 8, 1, 0, 0, 0, 1, 5});
  rejects("is compressed by gzip", {0x1f, 0x8b, 8, 1, 0, 0, 0, 1, 5});
  rejects("the unknown type 10", {0, 0, 10, 1, 0, 0, 0, 1, 5});
  rejects("the unknown type 7", {0, 0, 7, 1, 0, 0, 0, 1, 5});
  rejects("has 0 dimensions", {0, 0, 8, 0});
  rejects("ends in its header, which has 2 extents", {0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0});
  rejects("extent 0 is 0", {0, 0, 8, 1, 0, 0, 0, 0});
  rejects("has 1 bytes of elements, but its header says 2", {0, 0, 8, 1, 0, 0, 0, 2, 5});
  rejects("has 3 bytes of elements, but its header says 2", {0, 0, 8, 1, 0, 0, 0, 2, 5, 5, 5});
  // 2^96 elements: a product that does not fit 64 bits.
  rejects("its header says 18446744073709551615",
          {0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1});
  CHECK_THROWS_WITH_AS(read_idx("idx_missing.idx"), doctest::Contains("No such file or directory"), error);
  CHECK_THROWS_WITH_AS(read_idx("."), doctest::Contains("Is a directory"), error);
#if !defined(_WIN32)
  CHECK_THROWS_WITH_AS(read_idx("/dev/zero"), doctest::Contains("it is no regular file"), error);
#endif
}
