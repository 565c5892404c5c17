#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpipe/core/config.hpp>
#include <gpipe/record/file/file_operations.hpp>
#include <gpipe/record/progress.hpp>

namespace gpipe {

namespace detail {

/// A number of a log: its name in a file, and in TensorBoard.
struct log_value {
  const char* name;
  const char* tag;
  double value;  // NaN: there is none
};

// change: a logged number
/// The numbers of a step, in the order of the columns. Numbers of held-out data are only at the end of an epoch.
GPIPE_COLD inline std::array<log_value, 8> log_values(const fit_progress& progress) {
  return {{{"loss", "train/epoch_loss", progress.loss},
           {"step_loss", "train/loss", progress.step_loss},
           {"rate", "train/rate", progress.rate},
           {"norm", "train/norm", progress.norm},
           {"samples_per_second", "train/samples_per_second", progress.samples_per_second},
           {"waiting", "train/waiting", progress.waiting},
           {"held_out", "held_out/loss", progress.held_out},
           {"held_out_accuracy", "held_out/accuracy", progress.held_out_accuracy}}};
}

/// The steps of all epochs so far.
inline std::int64_t log_step(const fit_progress& progress) {
  return std::int64_t{(progress.epoch > 0 ? progress.epoch - 1 : 0)} * progress.steps + progress.step;
}

/// A file that grows while a training runs. It is flushed at most once per second, and at the end of an epoch. A write
/// that fails ends the log, with one line on the standard error, but not the training.
class log_output {
 public:
  /// Opens the file, to append to its whole lines or to replace it. Throws `error` if that is impossible.
  log_output(const std::string& path, bool append);
  ~log_output();
  log_output(const log_output&) = delete;
  log_output& operator=(const log_output&) = delete;

  /// Appends all the bytes or, if that fails, ends the log.
  void write(std::string_view bytes, bool at_once);
  bool ended() const { return !file_; }
  const std::string& path() const { return path_; }

 private:
  void flush();

  std::string path_;
  std::optional<open_file> file_;  // none: the log has ended
  std::string waiting_;            // bytes that are not written yet
  std::chrono::steady_clock::time_point flushed_ = std::chrono::steady_clock::now();
};

}  // namespace detail

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
