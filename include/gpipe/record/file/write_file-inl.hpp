#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <gpipe/record/file/replace_file.hpp>
#include <gpipe/record/file/write_file.hpp>

namespace gpipe {

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
