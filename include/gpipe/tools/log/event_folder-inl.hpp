#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <gpipe/tools/log/event_folder.hpp>

namespace gpipe {

/// TensorBoard reads every file with "tfevents" in its name.
GPIPE_COLD GPIPE_INLINE std::string event_folder::new_file(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!fs::is_directory(folder, failed)) throw error("is no folder", "choose the path of a folder", {.file = folder});
#if defined(_WIN32)
  const int process = 0;
#else
  const int process = ::getpid();
#endif
  const auto seconds = static_cast<std::int64_t>(detail::seconds_since_1970());
  for (int number = 0;; ++number) {
    const fs::path path =
        fs::path(folder) / detail::concat({"events.out.tfevents.", seconds, ".gpipe.", process, ".", number});
    if (!fs::exists(path, failed)) return path.string();
  }
}

GPIPE_COLD GPIPE_INLINE event_folder::event_folder(const std::string& folder) : out_(new_file(folder), false) {
  out_.write(detail::version_record(detail::seconds_since_1970()), true);
}

GPIPE_COLD GPIPE_INLINE void event_folder::operator()(const fit_progress& progress) {
  if (ended()) return;
  out_.write(
      detail::event_record(detail::seconds_since_1970(), detail::log_step(progress), detail::log_values(progress)),
      progress.step == progress.steps);
}

}  // namespace gpipe
