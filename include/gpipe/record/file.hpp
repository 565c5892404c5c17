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
              "give a path in a folder that exists and that you may write to", location{.file = path});
}

}  // namespace detail

/// Asks before the work begins whether the file can be written in the end. What it holds stays, and a file that was
/// not there is not there afterwards. A named pipe is not asked: to open it is to wait for who reads it.
GPIPE_COLD inline void require_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const auto before = fs::status(path, unknown).type();
  if (before == fs::file_type::fifo) return;
  errno = 0;
  if (!std::ofstream(path, std::ios::app | std::ios::binary)) detail::cannot_write(path, errno);
  if (before == fs::file_type::not_found) fs::remove(fs::canonical(path, unknown), unknown);  // not the link to it
}

/// Writes the file anew with `write(stream)`; throws unless every byte was taken.
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
