// sanitizers: address

#include <gpipe/tools/log/event_folder.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "support/checkpoints.hpp"

using namespace gpipe;
namespace fs = std::filesystem;
using namespace gpipe::detail;

namespace {

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

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes)
    for (const int digit : {static_cast<unsigned char>(c) >> 4, c & 15}) text += "0123456789abcdef"[digit];
  return text;
}

}  // namespace

TEST_CASE("every object writes a file of its own, whole at the end of an epoch") {
  fs::remove_all("events_test");
  {
    event_folder first("events_test/run"), second("events_test/run");
    CHECK(first.file() != second.file());
    CHECK(first.file().find("tfevents") != std::string::npos);
    CHECK(records_of(checkpoints::content(first.file())) == 1);
    first({.epoch = 1, .step = 1, .steps = 2});
    first({.epoch = 1, .step = 2, .steps = 2});
    CHECK(records_of(checkpoints::content(first.file())) == 3);
    CHECK(records_of(checkpoints::content(second.file())) == 1);
  }
  std::ofstream("events_test/file") << "x";
  CHECK_THROWS_WITH_AS(event_folder("events_test/file"), doctest::Contains("is no folder"), error);
  fs::remove_all("events_test");
}

TEST_CASE("the checksum is CRC-32C") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, appendix B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
}

// The expected bytes are those that the RecordWriter and the event_pb2 of tensorboard 2.21.0 write.
TEST_CASE("the first record of a file, and the record of a step, have TensorBoard's bytes") {
  fit_progress now{.epoch = 3, .epochs = 5, .step = 100, .steps = 100, .loss = 2.5, .rate = 0.001};
  now.samples_per_second = 1e6;
  now.step_loss = 2.25;
  now.norm = 1.5;
  now.held_out = 0.75;
  CHECK(hex(version_record(1700000000.25) + event_record(1700000001.5, log_step(now), log_values(now))) ==
        "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9ae00000000000000"
        "c6739f1d0900006040fc54d94110ac022a9f010a170a10747261696e2f65706f63685f6c6f737315000020400a110a0a"
        "747261696e2f6c6f737315000010400a110a0a747261696e2f72617465156f12833a0a110a0a747261696e2f6e6f726d"
        "150000c03f0a1f0a18747261696e2f73616d706c65735f7065725f7365636f6e6415002474490a140a0d747261696e2f"
        "77616974696e6715000000000a140a0d68656c645f6f75742f6c6f7373150000403fbf0a4e20");
}
