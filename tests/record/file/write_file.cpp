#include <gpipe/record/file/write_file.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/stat.h>

#include "support/checkpoints.hpp"

using namespace checkpoints;

namespace {

/// The name under which the successor of a file is written.
std::string part_of(const std::string& path) {
  const std::filesystem::path target(path);
  return (target.parent_path() / ("." + target.filename().string() + ".part")).string();
}

/// A disk that is full when one call comes.
struct failing_files : gpipe::detail::file_operations {
  std::string_view fails;
  explicit failing_files(std::string_view call) : fails(call) {}
  bool full(std::string_view call) const { return call == fails && (errno = ENOSPC, true); }

  int open(const char* path, int flags, int mode) override {
    return full("open") ? -1 : file_operations::open(path, flags, mode);
  }
  long write(int file, const void* from, std::size_t bytes) override {
    return full("write") ? -1 : file_operations::write(file, from, bytes);
  }
  int sync(int file) override { return full("sync") ? -1 : file_operations::sync(file); }
  int rename(const char* from, const char* to) override {
    return full("rename") ? -1 : file_operations::rename(from, to);
  }
};

}  // namespace

TEST_CASE("the check keeps a file's content, and creates no file") {
  const memory_folder folder("write-file");
  const std::string file = folder / "checked";
  gpipe::require_writable(file);
  CHECK_FALSE(std::filesystem::exists(file));
  put(file, "precious");
  gpipe::require_writable(file);
  CHECK(content(file) == "precious");
}

TEST_CASE("the check keeps unreadable files and dangling links, and does not wait for the reader of a pipe") {
  const memory_folder folder("write-file");
  const std::string file = folder / "unreadable", link = folder / "link", target = folder / "target",
                    pipe = folder / "pipe";
  put(file, "precious");
  std::filesystem::permissions(file, std::filesystem::perms::owner_write);
  gpipe::require_writable(file);
  CHECK(std::filesystem::exists(file));
  std::filesystem::create_symlink(target, link);
  gpipe::require_writable(link);
  CHECK(std::filesystem::is_symlink(link));
  CHECK_FALSE(std::filesystem::exists(target));
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  gpipe::require_writable(pipe);
  CHECK(std::filesystem::exists(pipe));
}

TEST_CASE("an error names the path that cannot be written") {
  const std::string nowhere = "no/such/folder/trace.json";
  const auto message = complaint([&] { gpipe::require_writable(nowhere); });
  CHECK(message.find(nowhere) != std::string::npos);
  CHECK(message.find("No such file or directory") != std::string::npos);
  CHECK(complaint([&] { gpipe::write_file(nowhere, [](std::ostream&) {}); }) == message);
  const auto folder = std::filesystem::temp_directory_path().string();
  CHECK(complaint([&] { gpipe::require_writable(folder); }).find(folder) != std::string::npos);
  CHECK(std::filesystem::exists(folder));
}

TEST_CASE("a file is overwritten") {
  const memory_folder folder("write-file");
  const std::string file = folder / "overwritten";
  put(file, "something long");
  gpipe::write_file(file, [](std::ostream& out) { out << "short"; });
  CHECK(content(file) == "short");
}

TEST_CASE("a full disk is an error") {
  if (!std::filesystem::exists("/dev/full")) return;
  CHECK(complaint([] {
          gpipe::write_file("/dev/full", [](std::ostream& out) { out << "a few bytes, lost when the file is closed"; });
        }) ==
        "/dev/full: writing the file failed: No space left on device; free space on the disk, or choose another "
        "folder");
}

TEST_CASE("a file that is not written to its end leaves the old one, and nothing else") {
  const memory_folder folder("write-file");
  const std::string file = folder / "kept";
  put(file, "old");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  CHECK_THROWS_AS(gpipe::write_file(file, [](std::ostream& out) { out << "ne", throw 1; }), int);
  CHECK(content(file) == "old");
  CHECK_THROWS_AS(gpipe::write_file(file, [](std::ostream& out) { out << "ne", out.setstate(std::ios::badbit); }),
                  gpipe::error);
  CHECK(content(file) == "old");
  CHECK_FALSE(std::filesystem::exists(part_of(file)));
  for (const char* call : {"open", "write", "sync", "rename"}) {
    CAPTURE(call);
    failing_files files(call);
    refuses([&] { gpipe::detail::write_whole(file, "new", files); }, "No space left");
    CHECK(content(file) == "old");
    CHECK_FALSE(std::filesystem::exists(part_of(file)));
  }
  gpipe::write_file(file, [](std::ostream& out) { out << "new"; });
  CHECK(content(file) == "new");
  CHECK((std::filesystem::status(file).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
  CHECK_FALSE(std::filesystem::exists(part_of(file)));
}

TEST_CASE("a link stays a link, and two names of one file are seen") {
  const memory_folder folder("write-file");
  const std::string file = folder / "pointed", link = folder / "pointing", other = folder / "other";
  put(file, "old");
  std::filesystem::create_symlink(file, link);
  gpipe::write_file(link, [](std::ostream& out) { out << "new"; });
  CHECK(std::filesystem::is_symlink(link));
  CHECK(content(file) == "new");
  CHECK(gpipe::is_same_file(file, link));
  CHECK_FALSE(gpipe::is_same_file(file, other));
  CHECK(gpipe::is_same_file("not_there.svg", "./not_there.svg"));
  CHECK(gpipe::is_same_file("a/../not_there.svg", "not_there.svg"));
}
