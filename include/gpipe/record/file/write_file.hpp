#pragma once

#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe {

namespace detail {

/// The file that `path` names after its links are resolved, and the path under which its successor is written.
struct replaced_path {
  std::string target, part, folder;
  bool is_file;  ///< or does not exist; otherwise it cannot be replaced
};
replaced_path path_to_replace(const std::string& path, file_operations& files);

/// Creates an empty successor with the permissions of the file. False if that is impossible.
bool make_part(const replaced_path& paths, file_operations& files);

void require_file(const replaced_path& paths);
void complete_replacement(const replaced_path& paths, file_operations& files);

/// Calls `write(part)`, which writes a file at this path and makes it durable; then the file replaces `path`. If that
/// fails, `path` is the old file.
template <class Write>
void replace_file(const std::string& path, file_operations& files, Write&& write) {
  const replaced_path paths = path_to_replace(path, files);
  require_file(paths);
  try {
    write(paths.part);
    complete_replacement(paths, files);
  } catch (...) {
    files.remove_file(paths.part.c_str());
    throw;
  }
}

/// Writes all bytes, or throws. The file is written to the disk under another name in the same folder, and then
/// replaces `path`. A pipe, a terminal and a file in a folder without write permission are written in place.
void write_whole(const std::string& path, std::string_view bytes, file_operations& files = system_files());

}  // namespace detail

/// Writes a file with `write(stream)`; throws unless every byte was written. After a full disk, or an exception of
/// `write`, the old file remains.
template <class Write>
void write_file(const std::string& path, Write&& write) {
  std::ostringstream out;
  write(static_cast<std::ostream&>(out));
  if (!out) throw error("the text of the file has no end", "write to the stream until its end", {.file = path});
  detail::write_whole(path, out.view());
}

/// Checks in advance that the file can be written. Leaves its content, and creates no file. A named pipe is not
/// checked, because opening it would wait for a reader.
void require_writable(const std::string& path);

/// Whether two paths name the same file, even through links, `.` and `..`.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/record/file/write_file-inl.hpp>
#endif
