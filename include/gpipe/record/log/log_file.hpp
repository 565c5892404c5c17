#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>

#include <gpipe/record/log/log_output.hpp>
#include <gpipe/record/log/log_values.hpp>

namespace gpipe {

/// Whether a log replaces an older file, or goes on behind it, as a training that was stopped and begun again does.
enum class log_begin : bool { anew, append };

/// The numbers of a training, a line a step: a table if the path ends with .csv, a JSON object a line if it ends with
/// .jsonl. `time` is in seconds since 1970, `step` counts over all epochs. The other columns are those of
/// `fit_progress`; numbers of held-out data are only in the last line of an epoch.
///
///     log_file log("run.csv");
///     fit(training, data, {.epochs = 10}, log);
///
/// A write that fails (a full disk) ends the log with one line on the standard error, and not the training.
class log_file {
 public:
  /// Throws `error` if the path has another ending, or if the file cannot be written.
  explicit log_file(const std::string& path, log_begin how = log_begin::anew);

  /// Call it after every step, or give the log to `fit`.
  void operator()(const fit_progress& now);

  /// Whether a write has failed.
  bool ended() const { return out_.ended(); }

 private:
  static bool is_table(const std::string& path);

  bool table_;
  detail::log_output out_;
};

namespace detail {

/// The line of a step.
std::string log_line(const fit_progress& now, double seconds, bool table);
/// The names of a table's columns.
std::string log_head();
inline double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace detail

#if GPIPE_BODIES
namespace detail {

GPIPE_COLD GPIPE_INLINE std::string log_head() {
  std::string line = "time,epoch,step";
  for (const log_value& v : log_values({})) (line += ',') += v.name;
  return line + '\n';
}

GPIPE_COLD GPIPE_INLINE std::string log_line(const fit_progress& now, double seconds, bool table) {
  std::string line = table ? "" : "{";
  // The shortest digits that read as the same number. JSON has neither infinities nor "not a number".
  const auto add = [&](const char* name, auto value) {
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    const bool there = table ? !std::isnan(static_cast<double>(value)) : std::isfinite(static_cast<double>(value));
    if (line.size() > (table ? 0 : 1) && (table || there)) line += ',';
    if (!there) return;
    if (!table) line.append("\"").append(name).append("\":");
    line.append(digits, end.ptr);
  };
  char time[40];
  const auto end = std::to_chars(time, time + sizeof time, seconds, std::chars_format::fixed, 3);
  line.append(table ? "" : "\"time\":").append(time, end.ptr);
  add("epoch", now.epoch);
  add("step", log_step(now));
  for (const log_value& v : log_values(now)) add(v.name, v.value);
  return line + (table ? "\n" : "}\n");
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE bool log_file::is_table(const std::string& path) {
  const bool table = path.ends_with(".csv");
  if (!table && !path.ends_with(".jsonl"))
    throw error("is no name of a log", "choose one that ends with .csv or .jsonl", {.file = path});
  return table;
}

GPIPE_COLD GPIPE_INLINE log_file::log_file(const std::string& path, log_begin how)
    : table_(is_table(path)), out_(path, how == log_begin::append) {
  std::error_code unknown;
  if (table_ && std::filesystem::file_size(path, unknown) == 0) out_.write(detail::log_head(), true);
}

GPIPE_COLD GPIPE_INLINE void log_file::operator()(const fit_progress& now) {
  if (ended()) return;
  out_.write(detail::log_line(now, detail::seconds_since_1970(), table_), now.step == now.steps);
}
#endif

}  // namespace gpipe
