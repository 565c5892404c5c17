#include <gpipe/record/file/read_file.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>

#include <sys/stat.h>

#include "support/checkpoints.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// Gives a few bytes with each call, is interrupted before each, and fails at the end if `reason` is not 0.
struct slow_files : file_operations {
  std::size_t at_once;
  int reason;
  bool interrupted = false;
  slow_files(std::size_t bytes, int errno_at_end) : at_once(bytes), reason(errno_at_end) {}

  long read(int file, void* into, std::size_t bytes) override {
    interrupted = !interrupted;
    if (interrupted) return errno = EINTR, -1;
    const long count = file_operations::read(file, into, bytes < at_once ? bytes : at_once);
    return count == 0 && reason != 0 ? (errno = reason, -1) : count;
  }
};

std::string text_of(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 % 251);
  return text;
}

}  // namespace

TEST_CASE("all bytes of a file are read, in however many pieces they come") {
  const checkpoints::memory_folder folder("read-file");
  for (const std::size_t bytes : {0UL, 1UL, 65535UL, 65536UL, 65537UL, 500000UL}) {
    CAPTURE(bytes);
    checkpoints::put(folder / "whole", text_of(bytes));
    CHECK(read_file(folder / "whole") == text_of(bytes));
  }
  checkpoints::put(folder / "whole", text_of(1000));
  slow_files slow(7, 0);
  CHECK(read_file(folder / "whole", slow) == text_of(1000));
}

TEST_CASE("a stream gives one byte after the other, and may look at the next one") {
  const checkpoints::memory_folder folder("file-stream");
  checkpoints::put(folder / "file", text_of(70000));
  file_stream stream(folder / "file");
  std::string text;
  while (stream.peek() != file_stream::end) {
    const int next = stream.peek();
    CHECK_FALSE(stream.next() != next);
    text += static_cast<char>(next);
  }
  CHECK(text == text_of(70000));
  CHECK(stream.next() == file_stream::end);
  CHECK(stream.next() == file_stream::end);
}

TEST_CASE("a pipe is read until its end") {
  const checkpoints::memory_folder folder("read-pipe");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  std::thread writer([&] { checkpoints::put(folder / "pipe", text_of(200000)); });
  CHECK(read_file(folder / "pipe") == text_of(200000));
  writer.join();
}

TEST_CASE("an error names the path and the cause") {
  const checkpoints::memory_folder folder("read-fails");
  checkpoints::put(folder / "file", text_of(100));
  slow_files broken(30, EIO);
  CHECK(checkpoints::complaint([&] { read_file(folder / "none"); }) ==
        (folder / "none") +
            ": opening the file failed: No such file or directory; check the path; its folder must be there");
  CHECK(checkpoints::complaint([&] { read_file(folder.path); }) ==
        folder.path + ": reading the file failed: Is a directory; give the path of a file");
  CHECK(checkpoints::complaint([&] { read_file(folder / "file", broken); }) ==
        (folder / "file") + ": reading the file failed: Input/output error; check the path and its disk");
  struct no_more_files : file_operations {
    int open(const char*, int, int) override { return errno = EMFILE, -1; }
  } full;
  CHECK(checkpoints::complaint([&] { read_file(folder / "file", full); }) ==
        (folder / "file") +
            ": opening the file failed: Too many open files; raise the limit of open files (ulimit -n)");
}
