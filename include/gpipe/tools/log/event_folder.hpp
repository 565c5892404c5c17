#pragma once

#include <string>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#include <gpipe/core/build_mode.hpp>
#include <gpipe/tools/log/event_record.hpp>
#include <gpipe/tools/log/log_file.hpp>

namespace gpipe {

/// The numbers of a training for TensorBoard: `tensorboard --logdir FOLDER`. Each object writes a new file into the
/// folder, so a resumed training continues its curves. The folder is made if it does not exist.
///
///     event_folder events("runs/1");
///     fit(training, data, {.epochs = 10}, events);
///
/// A write that fails (a full disk) ends the log, with one line on the standard error, but not the training.
class event_folder {
 public:
  /// Throws `error` if the folder cannot be written.
  explicit event_folder(const std::string& folder);

  /// Call it after every step, or give the folder to `fit`.
  void operator()(const fit_progress& progress);

  /// Whether a write has failed.
  bool ended() const { return out_.ended(); }
  /// The path of the file.
  const std::string& file() const { return out_.path(); }

 private:
  static std::string new_file(const std::string& folder);

  detail::log_output out_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/log/event_folder-inl.hpp>
#endif
