#pragma once

#include <string>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe::detail {

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

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/record/file/replace_file-inl.hpp>
#endif
