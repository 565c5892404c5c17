#include <gpipe/record/checkpoint/write_safetensors.hpp>

#include <doctest/doctest.h>

#include <gpipe/record/checkpoint/safetensors_file.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace checkpoints;

namespace {

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
  std::size_t largest = 1 << 30, smallest_write = SIZE_MAX;
  long write(int file, const void* from, std::size_t bytes) override {
    smallest_write = (std::min)(smallest_write, bytes);
    if (++count == fail_at) {
      errno = reason;
      return -1;
    }
    return file_operations::write(file, from, (std::min)(bytes, largest));
  }
  int sync(int file) override {
    if (++count != fail_at) return file_operations::sync(file);
    errno = reason;
    return -1;
  }
  int rename(const char* from, const char* to) override {
    if (++count != fail_at) return file_operations::rename(from, to);
    errno = reason;
    return -1;
  }
};

}  // namespace

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
