// sanitizers: address

#include <gpipe/tools/log/event_folder.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

using namespace gpipe;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The number of whole records; -1 if one is broken.
int records_of(const std::string& bytes) {
  using gpipe::detail::masked_crc32c;
  const auto number = [&](std::size_t at, int size) {
    std::uint64_t word = 0;
    for (int i = size; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
    return word;
  };
  int count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) {
    if (bytes.size() - at < 16) return -1;
    const auto length = static_cast<std::size_t>(number(at, 8));
    if (length > bytes.size() - at - 16) return -1;
    const std::string_view record = std::string_view(bytes).substr(at);
    if (number(at + 8, 4) != masked_crc32c(record.substr(0, 8))) return -1;
    if (number(at + 12 + length, 4) != masked_crc32c(record.substr(12, length))) return -1;
    at += 16 + length;
  }
  return count;
}

}  // namespace

TEST_CASE("every object writes a file of its own, whole at the end of an epoch") {
  fs::remove_all("events_test");
  {
    event_folder first("events_test/run"), second("events_test/run");
    CHECK(first.file() != second.file());
    CHECK(first.file().find("tfevents") != std::string::npos);
    CHECK(records_of(bytes_of(first.file())) == 1);
    first({.epoch = 1, .step = 1, .steps = 2});
    first({.epoch = 1, .step = 2, .steps = 2});
    CHECK(records_of(bytes_of(first.file())) == 3);
    CHECK(records_of(bytes_of(second.file())) == 1);
  }
  std::ofstream("events_test/file") << "x";
  CHECK_THROWS_WITH_AS(event_folder("events_test/file"), doctest::Contains("is no folder"), error);
  fs::remove_all("events_test");
}
