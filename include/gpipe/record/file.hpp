#pragma once

#include <gpipe/core/error.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <ostream>
#include <string>

namespace gpipe {

namespace detail {

[[noreturn]] GPIPE_ONCE inline void cannot_write(const std::string& path, int reason) {
  throw error("cannot write '" + path + "'" + (reason == 0 ? "" : std::string(": ") + std::strerror(reason)),
              "give a path in a folder that exists and that you may write to", place{.file = path});
}

}  // namespace detail

/// Asks before the work begins whether the file can be written in the end. What it holds stays, and a file that was
/// not there is not there afterwards.
GPIPE_ONCE inline void require_writable(const std::string& path) {
  const bool existed = std::ifstream(path).is_open();
  errno = 0;
  if (!std::ofstream(path, std::ios::app | std::ios::binary)) detail::cannot_write(path, errno);
  if (!existed) std::remove(path.c_str());
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
