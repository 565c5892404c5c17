#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/record/file/file_operations.hpp>

namespace gpipe::detail {

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

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/tools/log/log_output-inl.hpp>
#endif
