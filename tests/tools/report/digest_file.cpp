#include <gpipe/tools/report/digest_file.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace gpipe;

namespace {

const std::string path = (std::filesystem::temp_directory_path() / "gpipe_digest_file_test").string();

digest made() {
  digest all({"linear<4>", "gelu"}, 2, 3);
  for (int call = 0; call < 2; ++call) {
    std::uint64_t bits = ~std::uint64_t{0};
    for (std::uint64_t& into : all.open()) into = bits /= 3;
    all.close({static_cast<std::uint64_t>(call) << 40, call});
  }
  return all;
}

std::string written(const digest& from) {
  write_digest(path, from);
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void expect_error(const std::string& text, const char* what) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(read_digest(path), doctest::Contains(what), error);
}

}  // namespace

TEST_CASE("a written digest is read back, to the bit") {
  write_digest(path, made());
  const digest found = read_digest(path), expected = made();
  CHECK_FALSE(first_difference(found, expected));
  CHECK(found.layers() == expected.layers());
  CHECK(found.micro_batches() == 2);
  REQUIRE(found.calls() == 2);
  CHECK(found.at(1).step == std::uint64_t{1} << 40);
  CHECK(found.at(1).before == 1);
  for (std::size_t call = 0; call < 2; ++call)
    CHECK(std::equal(found.hashes(call).begin(), found.hashes(call).end(), expected.hashes(call).begin()));
  write_digest(path, digest());
  CHECK(read_digest(path).calls() == 0);
  std::filesystem::remove(path);
}

TEST_CASE("a file that is not a digest is rejected, with its line") {
  std::filesystem::remove(path);
  CHECK_THROWS_WITH_AS(read_digest(path), doctest::Contains("opening the file failed: No such file"), error);
  const std::string good = written(made());
  for (std::size_t cut = 0; cut < good.size(); cut += 7) expect_error(good.substr(0, cut), "this file is not a digest");
  expect_error("gpipe digest 1 1\n", "_test:1: this file is not a digest");
  expect_error("gpipe digest 1 1 0 0\n", ":1: ");
  expect_error("gpipe digest 1 -1 0\nrelu\n", ":1: ");
  expect_error("gpipe digest 1 2000000000 1000000000000\nrelu\n0 0 1\n", ":2: ");  // larger than any memory
  expect_error("gpipe digest 1 1 1\nrelu\n0 0 1 2 3 4 5 6\n", ":3: ");
  expect_error("gpipe digest 1 1 1\nrelu\n0 0 1 2 3 4 x\n", ":3: ");
  std::ofstream(path, std::ios::trunc) << "gpipe digest 1 1 1\nrelu\n0 0 1 2 3 4 5\n";
  CHECK(read_digest(path).hashes(0)[4] == 5);
  std::filesystem::remove(path);
}
