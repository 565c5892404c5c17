#pragma once

#include <chrono>
#include <string>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/tools/log/log_output.hpp>
#include <gpipe/tools/log/log_values.hpp>

namespace gpipe {

/// Whether a log replaces an older file or is appended to it, as for a resumed training.
enum class log_begin : bool { anew, append };

/// The numbers of a training, one line per step: a table if the path ends with .csv, one JSON object per line if it
/// ends with .jsonl. `time` is in seconds since 1970, `step` counts over all epochs. The other columns are members of
/// `fit_progress`; numbers of held-out data are only in the last line of an epoch.
///
///     log_file log("run.csv");
///     fit(training, data, {.epochs = 10}, log);
///
/// A write that fails (a full disk) ends the log, with one line on the standard error, but not the training.
class log_file {
 public:
  /// Throws `error` if the path has another ending, or if the file cannot be written.
  explicit log_file(const std::string& path, log_begin begin = log_begin::anew);

  /// Call it after every step, or give the log to `fit`.
  void operator()(const fit_progress& progress);

  /// Whether a write has failed.
  bool ended() const { return out_.ended(); }

 private:
  static bool is_table(const std::string& path);

  bool table_;
  detail::log_output out_;
};

namespace detail {

/// The line of a step.
std::string log_line(const fit_progress& progress, double seconds, bool table);
/// The names of a table's columns.
std::string log_head();
inline double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/log/log_file-inl.hpp>
#endif
