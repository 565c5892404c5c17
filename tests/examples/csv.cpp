#include "../examples/csv.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <string>

using example::read_csv, example::labelled_rows;

namespace {

/// A file of this text while it is in scope.
struct written {
  std::string path = "csv_test.csv";
  explicit written(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  ~written() { std::remove(path.c_str()); }
};

labelled_rows read(const std::string& text) {
  const written file(text);
  return read_csv(file.path, 2, 10);
}

}  // namespace

TEST_CASE("a byte-order mark is no part of the first number") {
  CHECK(read("\xef\xbb\xbf" "1.5,2,3\n4,5,6\n").features == std::vector<float>{1.5F, 2, 4, 5});
  CHECK_THROWS_AS(read("1,2,3\n\xef\xbb\xbf" "4,5,6\n"), gpipe::error);
}

TEST_CASE("a number too near to 0 is 0, a number too large is an error") {
  CHECK(read("1e-60,-1e-400,3\n").features == std::vector<float>{0, 0});
  CHECK_THROWS_WITH_AS(read("1e60,1,3\n"), doctest::Contains("\"1e60\" does not fit a float"), gpipe::error);
  CHECK_THROWS_WITH_AS(read("1e400,1,3\n"), doctest::Contains("does not fit a float"), gpipe::error);
  CHECK_THROWS_WITH_AS(read("1,1,99999999999\n"), doctest::Contains("does not fit a label"), gpipe::error);
}

TEST_CASE("a line without end is refused, and a long or a strange word is cut in the message") {
  CHECK_THROWS_WITH_AS(read(std::string(example::longest_line + 1, '1')), doctest::Contains("has more than 1048576"),
                       gpipe::error);
  try {
    read("1," + std::string(5000, 'x') + "\x1b,3\n");
    CHECK(false);
  } catch (const gpipe::error& e) {
    CHECK(e.wrong().size() < 130);
  }
  CHECK_THROWS_WITH_AS(read("1,a\x1b[2J,3\n"), doctest::Contains("\"a\\x1b[2J\" is not a number"), gpipe::error);
#if !defined(_WIN32)
  CHECK_THROWS_AS(read_csv("/dev/zero", 2, 10), gpipe::error);
#endif
}
