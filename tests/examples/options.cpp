#include "../examples/options.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

struct line {
  std::int64_t limit = 0;
  int stages = 1;

  /// The error of this command line; empty if there is none.
  std::string read(std::vector<std::string> words) {
    std::vector<char*> at{nullptr};
    for (std::string& word : words) at.push_back(word.data());
    try {
      example::options("test")
          .bytes("--memory-limit", limit, "a limit")
          .number("--stages", stages, 1, 8, "stages")
          .read(static_cast<int>(at.size()), at.data());
    } catch (const gpipe::error& failure) {
      return failure.what();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("a number of bytes has a unit, and may have a fraction") {
  line given;
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, std::int64_t>>{{"1000", 1000},
                                                         {"4MiB", 4 << 20},
                                                         {"3.3MiB", 3'460'300},
                                                         {"0.5KB", 500},
                                                         {"1.25GB", 1'250'000'000},
                                                         {"9007199254740993", 9'007'199'254'740'993}}) {
    CHECK(given.read({"--memory-limit", text}) == "");
    CHECK(given.limit == bytes);
  }
  CHECK(given.read({"--memory-limit", "0.0001KB"}).find("is less than 1 byte") != std::string::npos);
  CHECK(given.read({"--memory-limit", "-3MB"}).find("is less than 1 byte") != std::string::npos);
  CHECK(given.read({"--memory-limit", "99999999TB"}).find("is out of range") != std::string::npos);
  CHECK(given.read({"--memory-limit", "9223372036854775808"}).find("is out of range") != std::string::npos);
  CHECK(given.read({"--memory-limit", "nan"}).find("--memory-limit: \"nan\"") != std::string::npos);
  CHECK(given.read({"--memory-limit", "3Mb"}).find("unknown unit") != std::string::npos);
}

TEST_CASE("an unknown option suggests the option that was meant") {
  line given;
  CHECK(given.read({"--stage", "2"}) == "unknown option \"--stage\"; write --stages, or --help, which lists all");
  CHECK(given.read({"--elephants"}) == "unknown option \"--elephants\"; --help lists them");
  CHECK(given.read({"--stages", std::string(3000, 'x')}).size() < 200);
}
