#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <gpipe/record/log/event_record.hpp>
#include <gpipe/record/log/log_file.hpp>

namespace gpipe {

/// The numbers of a training for TensorBoard: `tensorboard --logdir FOLDER`. Each object writes a new file into the
/// folder, so a training that was stopped and begun again continues its curves. The folder is made if it does not
/// exist.
///
///     event_folder events("runs/1");
///     fit(training, data, {.epochs = 10}, events);
///
/// A write that fails (a full disk) ends the log with one line on the standard error, and not the training.
class event_folder {
 public:
  /// Throws `error` if the folder cannot be written.
  explicit event_folder(const std::string& folder);

  /// Call it after every step, or give the folder to `fit`.
  void operator()(const fit_progress& now);

  /// Whether a write has failed.
  bool ended() const { return out_.ended(); }
  /// The path of the file.
  const std::string& file() const { return out_.path(); }

 private:
  static std::string new_file(const std::string& folder);

  detail::log_output out_;
};

#if GPIPE_BODIES
/// TensorBoard reads every file with "tfevents" in its name.
GPIPE_COLD GPIPE_INLINE std::string event_folder::new_file(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!fs::is_directory(folder)) throw error("is no folder", "choose the path of a folder", {.file = folder});
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

GPIPE_COLD GPIPE_INLINE void event_folder::operator()(const fit_progress& now) {
  if (ended()) return;
  out_.write(detail::event_record(detail::seconds_since_1970(), detail::log_step(now), detail::log_values(now)),
             now.step == now.steps);
}
#endif

}  // namespace gpipe
