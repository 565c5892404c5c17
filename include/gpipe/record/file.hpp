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

/// Writes a new file with `write(stream)`; throws unless every byte was written.
template <class Write>
void write_file(const std::string& path, Write&& write) {
  errno = 0;
  std::ofstream out(path, std::ios::trunc | std::ios::binary);
  if (!out) detail::cannot_write(path, errno);
  write(static_cast<std::ostream&>(out));
  out.close();
  if (!out) detail::cannot_write(path, errno);
}

}  // namespace gpipe
