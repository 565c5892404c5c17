#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/core/text/quoted.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE replaced_path path_to_replace(const std::string& path, file_operations& files) {
  namespace fs = std::filesystem;
  using kind = file_operations::kind;
  std::error_code unknown;
  fs::path target = path;
  if (files.kind_of(path.c_str()) == kind::other) target = fs::weakly_canonical(path, unknown);  // a link stays a link
  const kind before = files.kind_of(target.c_str());
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  return {target.string(), (folder / ("." + target.filename().string() + ".part")).string(), folder.string(),
          !target.filename().empty() && before != kind::folder && before != kind::other};
}

GPIPE_COLD GPIPE_INLINE bool make_part(const replaced_path& paths, file_operations& files) {
  namespace fs = std::filesystem;
  if (!paths.is_file) return false;
  const int part = files.open(paths.part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
  if (part < 0) return false;
  files.close(part);
  std::error_code unknown;
  if (const fs::file_status before = fs::status(paths.target, unknown); fs::exists(before))
    fs::permissions(paths.part, before.permissions(), unknown);
  return true;
}

GPIPE_COLD GPIPE_INLINE void require_file(const replaced_path& paths) {
  if (!paths.is_file)
    throw_error({"the path ", detail::quoted(paths.target), " is no file that can be replaced"},
                {"choose the path of a file"}, {.file = paths.target});
}

GPIPE_COLD GPIPE_INLINE void complete_replacement(const replaced_path& paths, file_operations& files) {
  if (files.rename(paths.part.c_str(), paths.target.c_str()) != 0)
    throw_file_error("giving the file its name", paths.target);
  sync_folder(files, paths.folder);
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE void detail::write_whole(const std::string& path, std::string_view bytes,
                                                 file_operations& files) {
  const auto write = [&](const std::string& file_path) {
    open_file file(files, file_path, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(bytes.data(), bytes.size());
    file.finish();
  };
  if (make_part(path_to_replace(path, files), files)) replace_file(path, files, write);
  else write(path);
}

GPIPE_COLD GPIPE_INLINE void require_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const auto before = fs::status(path, unknown).type();
  if (before == fs::file_type::fifo) return;
  static_cast<void>(detail::open_file(detail::system_files(), path, O_WRONLY | O_CREAT | O_APPEND));
  if (before == fs::file_type::not_found) fs::remove(fs::canonical(path, unknown), unknown);  // not a link to it
}

GPIPE_COLD GPIPE_INLINE bool is_same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  if (fs::exists(a, unknown) && fs::exists(b, unknown)) return fs::equivalent(a, b, unknown);
  const auto whole = [&](const std::string& p) { return fs::weakly_canonical(fs::absolute(p, unknown), unknown); };
  return whole(a) == whole(b);
}

}  // namespace gpipe
