#pragma once

#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe {

namespace detail {

/// Writes all the bytes, or throws. They reach the disk under another name in the same folder, and then take the place
/// of `path`. A pipe, a terminal and a file in a folder without write permission are written in place.
void write_whole(const std::string& path, std::string_view bytes, file_operations& files = system_files());

}  // namespace detail

/// Writes a file with `write(stream)`; throws unless every byte was written. A full disk, or an exception of `write`,
/// leaves the old file.
template <class Write>
void write_file(const std::string& path, Write&& write) {
  std::ostringstream out;
  write(static_cast<std::ostream&>(out));
  if (!out) throw error("the text of the file has no end", "write to the stream until its end", {.file = path});
  detail::write_whole(path, out.view());
}

/// Checks in advance that the file can be written. Its content stays, and a file that did not exist does not exist
/// afterwards. A named pipe is not checked: opening it would wait for a reader.
void require_writable(const std::string& path);

/// Whether two paths name one file: as the same words, or through links, `.` and `..`.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/file/write_file-inl.hpp>
#endif
