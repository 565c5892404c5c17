#include <gpipe/record/checkpoint/safetensors_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gpipe/record/checkpoint/header.hpp>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;
using detail::half_value;
using detail::nearest;

namespace {

/// A file of the reference: its tensors have the bytes 0, 1, ...
const std::string reference =
    reference_header() + from_hex("0000000000000000000102030405060708090a0b0c0d0e0f1011121314151617803f616263");

/// Reads one byte at a time, and is interrupted every second time.
struct slow_files : detail::file_operations {
  bool interrupt = false;
  long read_at(int file, void* into, std::size_t bytes, std::uint64_t at) override {
    interrupt = !interrupt;
    if (interrupt) return errno = EINTR, -1;
    return file_operations::read_at(file, into, (std::min)(bytes, std::size_t{1}), at);
  }
};
struct broken_files : detail::file_operations {
  int good = 0;
  long read_at(int file, void* into, std::size_t bytes, std::uint64_t at) override {
    return good-- > 0 ? file_operations::read_at(file, into, bytes, at) : (errno = EIO, -1);
  }
};

const std::vector<safetensors_tensor> tensors{{"b", safetensors_type::F32, {700, 1000}},
                                              {"a", safetensors_type::F32, {3}},
                                              {"empty", safetensors_type::F64, {0}},
                                              {"large", safetensors_type::U8, {9'000'001}}};

/// The bytes of a tensor depend on its name.
std::string bytes_of(const safetensors_entry& e) {
  std::string bytes(e.bytes(), '\0');
  auto next = static_cast<unsigned char>(e.name[0]);
  for (char *at = bytes.data(), *end = at + bytes.size(); at != end; ++at, next += 31) *at = static_cast<char>(next);
  return bytes;
}

safetensors_source in_pieces(std::size_t piece) {
  return [piece](const safetensors_entry& e, safetensors_sink& into) {
    const std::string bytes = bytes_of(e);
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      into.write(std::as_bytes(std::span(bytes).subspan(at, (std::min)(piece, bytes.size() - at))));
  };
}

/// Short writes, interrupts, and an error at a call.
struct hard_files : detail::file_operations {
  int count = 0, fail_at = -1, reason = 0;
  std::size_t largest = 1 << 30;
  bool fails() { return ++count == fail_at && (errno = reason, true); }
  long write(int file, const void* from, std::size_t bytes) override {
    return fails() ? -1 : file_operations::write(file, from, (std::min)(bytes, largest));
  }
  int sync(int file) override { return fails() ? -1 : file_operations::sync(file); }
  int rename(const char* from, const char* to) override { return fails() ? -1 : file_operations::rename(from, to); }
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
    refuses([&] { file.at("nothing"); }, "no tensor \"nothing\"");
    refuses([&] { file.read_bytes(file.at("b"), 22, bytes); }, "has 24 bytes");
    refuses([&] { file.read(file.at("b"), 5, std::span(wide)); }, "has 6 elements");
    refuses([&] { file.read(file.at("h"), 0, std::span(wide)); }, "U8");
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
  refuses([&] { safetensors_file(folder / "none"); }, "No such file");
  refuses([&] { safetensors_file(folder.path); }, "Is a directory");
  CHECK(complaint([&] { safetensors_file("/dev/null"); }) != "");
  put(folder / "a", reference);
  const safetensors_file file(folder / "a");
  std::filesystem::resize_file(folder / "a", reference.size() - 2);  // cut off after it was opened
  std::vector<std::byte> h(3);
  refuses([&] { file.read_bytes(file.at("h"), 0, h); }, "2 bytes too early");
  put(folder / "a", reference);
  for (int good : {0, 1}) {
    broken_files broken;
    broken.good = good;
    refuses([&] { safetensors_file(folder / "a", broken); }, "Input/output error");
  }
}

TEST_CASE("the bytes do not depend on the pieces in which they come") {
  const memory_folder folder("write");
  write_safetensors(folder / "a", tensors, {{"k", "v"}}, in_pieces(SIZE_MAX));
  const std::string expected = content(folder / "a");
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{4096}, std::size_t{1} << 22, std::size_t{5'000'000}}) {
    write_safetensors(folder / "a", tensors, {{"k", "v"}}, in_pieces(piece));
    CHECK(content(folder / "a") == expected);
  }
  const safetensors_file file(folder / "a");
  CHECK(file.entries()[0].name == "empty");
  for (const safetensors_entry& e : file.entries()) {
    std::string bytes(e.bytes(), '\0');
    file.read_bytes(e, 0, std::as_writable_bytes(std::span(bytes)));
    CHECK(bytes == bytes_of(e));
  }
  hard_files short_writes;
  short_writes.largest = 65'537;
  write_safetensors(folder / "b", tensors, {{"k", "v"}}, in_pieces(100'000), short_writes);
  CHECK(content(folder / "b") == expected);
}

TEST_CASE("writes are large") {
  const memory_folder folder("blocks");
  hard_files files;
  write_safetensors(folder / "a", tensors, {}, in_pieces(10'000), files);
  CHECK(files.count == 6);  // three blocks of at most 4 MiB, sync, rename, sync of the folder
}

TEST_CASE("whatever fails, the old file stays, and nothing beside it") {
  const memory_folder folder("fails");
  put(folder / "a", "old");
  for (const int reason : {ENOSPC, EIO, EACCES})
    for (int at = 1; at <= 5; ++at) {
      hard_files files;
      files.fail_at = at, files.reason = reason;
      const std::string message =
          complaint([&] { write_safetensors(folder / "a", tensors, {}, in_pieces(1 << 20), files); });
      CAPTURE(message);
      CHECK(message.find(std::strerror(reason)) != std::string::npos);
      CHECK(message.find("; ") != std::string::npos);
      CHECK(content(folder / "a") == "old");
      CHECK_FALSE(std::filesystem::exists(folder / ".a.part"));
    }
  for (int at = 1; at <= 4; ++at) {  // an interrupted call is made again
    hard_files files;
    files.fail_at = at, files.reason = EINTR;
    write_safetensors(folder / "b", tensors, {}, in_pieces(1 << 20), files);
    CHECK(safetensors_file(folder / "b").entries().size() == 4);
  }
}

TEST_CASE("a source that throws, or writes too little or too much") {
  const memory_folder folder("sources");
  put(folder / "a", "old");
  put(folder / ".a.part", "of a process that was killed");
  struct own {};
  CHECK_THROWS_AS(
      write_safetensors(folder / "a", tensors, {}, [](const safetensors_entry&, safetensors_sink&) { throw own{}; }),
      own);
  for (const std::size_t more : {std::size_t{0}, std::size_t{13}})
    CHECK(complaint([&] {
            write_safetensors(
                folder / "a", {{"a", safetensors_type::F32, {3}}}, {},
                [&](const safetensors_entry&, safetensors_sink& into) { into.append("0123456789abcdef", more); });
          }).find(more == 0 ? "its source wrote 0" : "its source wrote 13") != std::string::npos);
  CHECK(content(folder / "a") == "old");
  CHECK_FALSE(std::filesystem::exists(folder / ".a.part"));
}

TEST_CASE("a path that is no file, and a link") {
  const memory_folder folder("paths");
  const auto write = [&](const std::string& path) {
    return complaint([&] { write_safetensors(path, {}, {}, in_pieces(1)); });
  };
  CHECK(write(folder.path).find("is no file") != std::string::npos);
  CHECK(write(folder / "").find("is no file") != std::string::npos);
  CHECK(write(folder / "none/a").find("No such file") != std::string::npos);
  put(folder / "plain", "");
  CHECK(write(folder / "plain/a").find("Not a directory") != std::string::npos);
  std::filesystem::create_symlink("target", folder / "link");
  CHECK(write(folder / "link").find("is no file") != std::string::npos);  // it leads nowhere
  put(folder / "target", "old");
  CHECK(write(folder / "link") == "");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(content(folder / "target").size() == 16);
  if (::geteuid() != 0) {
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK(write(folder / "a").find("Permission denied") != std::string::npos);
    std::filesystem::permissions(folder.path, std::filesystem::perms::owner_all);
  }
}

TEST_CASE("all 65536 halves have their values") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float value = half_value(static_cast<std::uint16_t>(bits));
    if (exponent == 31 && fraction != 0) REQUIRE(std::isnan(value));
    else if (exponent == 31) REQUIRE(value == sign * std::numeric_limits<double>::infinity());
    else
      REQUIRE(value == sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25)));
    REQUIRE(std::signbit(value) == (sign < 0));
  }
}

TEST_CASE("a double becomes the nearest bf16: it is rounded once") {
  // Every bf16 and its upper neighbour; the middle between both is a tie.
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto at = [](std::uint32_t b) { return static_cast<double>(std::bit_cast<float>(b << 16)); };
    const double below = at(bits), above = bits == 0x7f7f ? 0x1p128 : at(bits + 1), middle = (below + above) / 2;
    const std::uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    for (const double sign : {1.0, -1.0}) {
      const auto rounded = [&](double x) { return nearest<bf16>(sign * x).bits & 0x7fffU; };
      REQUIRE(rounded(below) == bits);
      REQUIRE(rounded(middle) == even);
      REQUIRE(rounded(std::nextafter(middle, 0.0)) == bits);          // a float would be the middle,
      REQUIRE(rounded(std::nextafter(middle, 0x1p200)) == bits + 1);  // and then go to the even one
      REQUIRE((nearest<bf16>(sign * below).bits >= 0x8000) == (sign < 0));
    }
  }
  CHECK(std::isnan(static_cast<float>(nearest<bf16>(std::nan("")))));
  CHECK(nearest<bf16>(1e300).bits == 0x7f80);
  CHECK(nearest<bf16>(-1e300).bits == 0xff80);
  CHECK(nearest<bf16>(1e-300).bits == 0);
}

TEST_CASE("blocks of a file convert, at any alignment") {
  const double from[] = {1, -2.5, 0.1, 1e-40};
  std::byte bytes[1 + sizeof from];
  std::memcpy(bytes + 1, from, sizeof from);
  float floats[4];
  detail::convert(safetensors_type::F64, bytes + 1, 4, floats, "a", "f");
  for (int i = 0; i < 4; ++i) CHECK(floats[i] == static_cast<float>(from[i]));
  bf16 halves[4];
  detail::convert(safetensors_type::F64, bytes + 1, 4, halves, "a", "f");
  CHECK(halves[2].bits == bf16(0.1F).bits);
  double doubles[4];
  detail::convert(safetensors_type::BF16, reinterpret_cast<const std::byte*>(halves), 4, doubles, "a", "f");
  CHECK(doubles[1] == -2.5);
  CHECK(checkpoints::complaint([&] { detail::convert(safetensors_type::I64, bytes, 1, doubles, "a", "f"); }) ==
        "f: tensor \"a\" has elements of I64, which do not convert; store it as F16, BF16, F32 or F64, or read its "
        "bytes");
}
