#include <gpipe/record/file/write_file.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include <sys/stat.h>

namespace {

/// A path in the temporary folder, removed afterwards.
struct temporary_path {
  std::string path;
  explicit temporary_path(const std::string& name)
      : path((std::filesystem::temp_directory_path() / ("gpipe-file-test-" + name)).string()) {
    std::filesystem::remove(path);
  }
  ~temporary_path() { std::filesystem::remove(path); }
};

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The name under which the successor of a file is written.
std::string part_of(const std::string& path) {
  const std::filesystem::path target(path);
  return (target.parent_path() / ("." + target.filename().string() + ".part")).string();
}

template <class Call>
std::string complaint(Call call) {
  try {
    call();
  } catch (const gpipe::error& e) {
    return e.what();
  }
  return "";
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
  temporary_path file("checked");
  gpipe::require_writable(file.path);
  CHECK_FALSE(std::filesystem::exists(file.path));
  std::ofstream(file.path) << "precious";
  gpipe::require_writable(file.path);
  CHECK(content(file.path) == "precious");
}

TEST_CASE("the check keeps unreadable files and dangling links, and does not wait for the reader of a pipe") {
  temporary_path file("unreadable"), link("link"), target("target"), pipe("pipe");
  std::ofstream(file.path) << "precious";
  std::filesystem::permissions(file.path, std::filesystem::perms::owner_write);
  gpipe::require_writable(file.path);
  CHECK(std::filesystem::exists(file.path));
  std::filesystem::create_symlink(target.path, link.path);
  gpipe::require_writable(link.path);
  CHECK(std::filesystem::is_symlink(link.path));
  CHECK_FALSE(std::filesystem::exists(target.path));
  REQUIRE(mkfifo(pipe.path.c_str(), 0600) == 0);
  gpipe::require_writable(pipe.path);
  CHECK(std::filesystem::exists(pipe.path));
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
  temporary_path file("overwritten");
  std::ofstream(file.path) << "something long";
  gpipe::write_file(file.path, [](std::ostream& out) { out << "short"; });
  CHECK(content(file.path) == "short");
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
  temporary_path file("kept");
  std::ofstream(file.path) << "old";
  std::filesystem::permissions(file.path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  CHECK_THROWS_AS(gpipe::write_file(file.path, [](std::ostream& out) { out << "ne", throw 1; }), int);
  CHECK(content(file.path) == "old");
  CHECK_THROWS_AS(gpipe::write_file(file.path, [](std::ostream& out) { out << "ne", out.setstate(std::ios::badbit); }),
                  gpipe::error);
  CHECK(content(file.path) == "old");
  CHECK_FALSE(std::filesystem::exists(part_of(file.path)));
  for (const char* call : {"open", "write", "sync", "rename"}) {
    CAPTURE(call);
    failing_files files(call);
    CHECK(complaint([&] { gpipe::detail::write_whole(file.path, "new", files); }).find("No space left") !=
          std::string::npos);
    CHECK(content(file.path) == "old");
    CHECK_FALSE(std::filesystem::exists(part_of(file.path)));
  }
  gpipe::write_file(file.path, [](std::ostream& out) { out << "new"; });
  CHECK(content(file.path) == "new");
  CHECK((std::filesystem::status(file.path).permissions() & std::filesystem::perms::others_all) ==
        std::filesystem::perms::none);
  CHECK_FALSE(std::filesystem::exists(part_of(file.path)));
}

TEST_CASE("a link stays a link, and two names of one file are seen") {
  temporary_path file("pointed"), link("pointing"), other("other");
  std::ofstream(file.path) << "old";
  std::filesystem::create_symlink(file.path, link.path);
  gpipe::write_file(link.path, [](std::ostream& out) { out << "new"; });
  CHECK(std::filesystem::is_symlink(link.path));
  CHECK(content(file.path) == "new");
  CHECK(gpipe::is_same_file(file.path, link.path));
  CHECK_FALSE(gpipe::is_same_file(file.path, other.path));
  CHECK(gpipe::is_same_file("not_there.svg", "./not_there.svg"));
  CHECK(gpipe::is_same_file("a/../not_there.svg", "not_there.svg"));
}
