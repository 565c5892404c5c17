#pragma once

#include <gpipe/core/error.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <system_error>

namespace gpipe {

namespace detail {

[[noreturn]] GPIPE_COLD inline void cannot_write(const std::string& path, int reason) {
  throw error("cannot write '" + path + "'" + (reason == 0 ? "" : std::string(": ") + std::strerror(reason)),
              "choose a path in an existing folder with write permission", location{.file = path});
}

}  // namespace detail

/// Checks in advance that the file can be written. Its content stays, and a file that did not exist does not exist
/// afterwards. A named pipe is not checked: opening it would wait for a reader.
GPIPE_COLD inline void require_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const auto before = fs::status(path, unknown).type();
  if (before == fs::file_type::fifo) return;
  errno = 0;
  if (!std::ofstream(path, std::ios::app | std::ios::binary)) detail::cannot_write(path, errno);
  if (before == fs::file_type::not_found) fs::remove(fs::canonical(path, unknown), unknown);  // not a link to it
}

namespace detail {

/// A file that takes the place of another when it is complete. Until then the other stays as it is.
class replacement {
 public:
  /// The path itself for what cannot be replaced: a pipe, a terminal, a file in a folder without write permission.
  GPIPE_COLD explicit replacement(const std::string& path) : path_(path), written_(path) {
    namespace fs = std::filesystem;
    std::error_code unknown;
    const fs::path target = fs::weakly_canonical(path, unknown);  // a link stays a link
    const fs::file_status before = fs::status(path, unknown);
    if (fs::exists(before) ? !fs::is_regular_file(before) : fs::is_symlink(path, unknown)) return;
    const std::string part = target.string() + ".part";
    if (target.empty() || fs::exists(part, unknown) || !std::ofstream(part, std::ios::binary)) return;
    if (fs::exists(before)) fs::permissions(part, before.permissions(), unknown);
    target_ = target.string();
    written_ = part;
  }
  replacement(const replacement&) = delete;
  replacement& operator=(const replacement&) = delete;
  ~replacement() {
    std::error_code unknown;
    if (!target_.empty()) std::filesystem::remove(written_, unknown);
  }

  const std::string& written() const { return written_; }
  GPIPE_COLD void complete() {
    if (target_.empty()) return;
    std::error_code failed;
    std::filesystem::rename(written_, target_, failed);
    if (failed) cannot_write(path_, failed.value());
    target_.clear();
  }

 private:
  std::string path_, written_, target_;  // target_ is empty when there is nothing to rename
};

}  // namespace detail

/// Writes a file with `write(stream)`; throws unless every byte was written. The bytes go to `path`.part, which then
/// takes the place of `path`: a full disk, or an exception of `write`, leaves the old file.
template <class Write>
void write_file(const std::string& path, Write&& write) {
  detail::replacement file(path);
  errno = 0;
  std::ofstream out(file.written(), std::ios::trunc | std::ios::binary);
  if (!out) detail::cannot_write(path, errno);
  write(static_cast<std::ostream&>(out));
  out.close();
  if (!out) detail::cannot_write(path, errno);
  file.complete();
}

/// Whether two paths name one file: as the same words, or through links, `.` and `..`.
GPIPE_COLD inline bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (fs::exists(a, unknown) && fs::exists(b, unknown)) return fs::equivalent(a, b, unknown);
  const auto whole = [&](const std::string& p) { return fs::weakly_canonical(fs::absolute(p, unknown), unknown); };
  return whole(a) == whole(b);
}

}  // namespace gpipe
