#include <gpipe/record/checkpoint/safetensors_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

/// The same file as in the test of the header, by safetensors 0.8.0 of PyPI.
const std::string reference = from_hex(
    "40010000000000007b225f5f6d657461646174615f5f223a7b226b223a22765c74c3a9227d2c2261223a7b226474797065223a22463634222c"
    "2273"
    "68617065223a5b315d2c22646174615f6f666673657473223a5b302c385d7d2c2262223a7b226474797065223a22463332222c227368617065"
    "223a"
    "5b322c335d2c22646174615f6f666673657473223a5b382c33325d7d2c2263223a7b226474797065223a22463332222c227368617065223a5b"
    "302c"
    "345d2c22646174615f6f666673657473223a5b33322c33325d7d2c22c3a45c225c6e5c75303030317f2f223a7b226474797065223a22424631"
    "3622"
    "2c227368617065223a5b5d2c22646174615f6f666673657473223a5b33322c33345d7d2c2268223a7b226474797065223a225538222c227368"
    "6170"
    "65223a5b335d2c22646174615f6f666673657473223a5b33342c33375d7d7d20200000000000000000000102030405060708090a0b0c0d0e0f"
    "1011"
    "121314151617803f616263");

/// Reads one byte at a time, and is interrupted every second time.
struct slow_files : detail::file_operations {
  bool interrupt = false;
  long read_at(int file, void* into, std::size_t bytes, std::uint64_t at) override {
    interrupt = !interrupt;
    if (!interrupt) return file_operations::read_at(file, into, (std::min)(bytes, std::size_t{1}), at);
    errno = EINTR;
    return -1;
  }
};
struct broken_files : detail::file_operations {
  int good = 0;
  long read_at(int file, void* into, std::size_t bytes, std::uint64_t at) override {
    if (good-- > 0) return file_operations::read_at(file, into, bytes, at);
    errno = EIO;
    return -1;
  }
};

}  // namespace

TEST_CASE("a file of the reference is read, whole and in parts") {
  const memory_folder folder("safetensors-file");
  put(folder / "a", reference);
  slow_files slow;
  for (detail::file_operations* files : {&detail::system_files(), static_cast<detail::file_operations*>(&slow)}) {
    const safetensors_file file(folder / "a", *files);
    CHECK(file.entries().size() == 5);
    CHECK(file.metadata().at("k") == "v\t\u00e9");
    std::vector<std::byte> bytes(3);
    file.read_bytes(file.at("b"), 5, bytes);
    CHECK(bytes == std::vector<std::byte>{std::byte{5}, std::byte{6}, std::byte{7}});
    std::vector<float> b(6);
    file.read(file.at("b"), 0, std::span(b));
    CHECK(b[1] == std::bit_cast<float>(0x07060504U));
    std::vector<double> wide(2);
    file.read(file.at("b"), 4, std::span(wide));
    CHECK(wide[1] == static_cast<double>(b[5]));
    bf16 scalar;
    file.read(file.at("\u00e4\"\n\x01\x7f/"), 0, std::span(&scalar, 1));
    CHECK(static_cast<float>(scalar) == 1);
    CHECK(complaint([&] { file.at("nothing"); }).find("no tensor \"nothing\"") != std::string::npos);
    CHECK(complaint([&] { file.read_bytes(file.at("b"), 22, bytes); }).find("has 24 bytes") != std::string::npos);
    CHECK(complaint([&] { file.read(file.at("b"), 5, std::span(wide)); }).find("has 6 elements") != std::string::npos);
    CHECK(complaint([&] { file.read(file.at("h"), 0, std::span(wide)); }).find("U8") != std::string::npos);
  }
}

TEST_CASE("elements that convert come in blocks") {
  const memory_folder folder("safetensors-blocks");
  const std::size_t count = 600'001;
  const auto header =
      detail::header_bytes(detail::place_tensors({{"w", safetensors_type::F32, {count}}}, {}, "f"), "f");
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) / 7;
  put(folder / "a", header + std::string(reinterpret_cast<const char*>(values.data()), count * 4));
  const safetensors_file file(folder / "a");
  std::vector<double> wide(count - 3);
  file.read(file.at("w"), 3, std::span(wide));
  CHECK(std::equal(wide.begin(), wide.end(), values.begin() + 3));
}

TEST_CASE("a file that is cut off anywhere, longer by one byte, or not a file is refused") {
  const memory_folder folder("safetensors-cut");
  for (std::size_t size = 0; size <= reference.size() + 1; ++size) {
    put(folder / "a", (reference + "x").substr(0, size));
    CHECK((complaint([&] { safetensors_file(folder / "a"); }) == "") == (size == reference.size()));
  }
  CHECK(complaint([&] { safetensors_file(folder / "none"); }).find("No such file") != std::string::npos);
  CHECK(complaint([&] { safetensors_file(folder.path); }).find("Is a directory") != std::string::npos);
  CHECK(complaint([&] { safetensors_file("/dev/null"); }) != "");
  put(folder / "a", reference);
  const safetensors_file file(folder / "a");
  std::filesystem::resize_file(folder / "a", reference.size() - 2);  // cut off after it was opened
  std::vector<std::byte> h(3);
  CHECK(complaint([&] { file.read_bytes(file.at("h"), 0, h); }).find("2 bytes too early") != std::string::npos);
  put(folder / "a", reference);
  for (int good : {0, 1}) {
    broken_files broken;
    broken.good = good;
    CHECK(complaint([&] { safetensors_file(folder / "a", broken); }).find("Input/output error") != std::string::npos);
  }
}
