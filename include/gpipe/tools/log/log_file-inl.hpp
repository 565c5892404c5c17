#pragma once

#include <charconv>
#include <cmath>
#include <filesystem>
#include <string>
#include <system_error>

#include <gpipe/core/numbers/finite.hpp>
#include <gpipe/tools/log/log_file.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE std::string log_head() {
  std::string line = "time,epoch,step";
  for (const log_value& v : log_values({})) (line += ',') += v.name;
  return line + '\n';
}

GPIPE_COLD GPIPE_INLINE std::string log_line(const fit_progress& progress, double seconds, bool table) {
  std::string line = table ? "" : "{";
  // The shortest digits that read as the same number. JSON has neither infinities nor "not a number".
  const auto add = [&](const char* name, auto value) {
    char digits[40];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    const bool present = table ? !is_nan(static_cast<double>(value)) : is_finite(static_cast<double>(value));
    if (line.size() > (table ? 0 : 1) && (table || present)) line += ',';
    if (!present) return;
    if (!table) line.append("\"").append(name).append("\":");
    line.append(digits, end.ptr);
  };
  char time[40];
  const auto end = std::to_chars(time, time + sizeof time, seconds, std::chars_format::fixed, 3);
  line.append(table ? "" : "\"time\":").append(time, end.ptr);
  add("epoch", progress.epoch);
  add("step", log_step(progress));
  for (const log_value& v : log_values(progress)) add(v.name, v.value);
  return line + (table ? "\n" : "}\n");
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE bool log_file::is_table(const std::string& path) {
  const bool table = path.ends_with(".csv");
  if (!table && !path.ends_with(".jsonl"))
    throw error("is no name of a log", "choose one that ends with .csv or .jsonl", {.file = path});
  return table;
}

GPIPE_COLD GPIPE_INLINE log_file::log_file(const std::string& path, log_begin begin)
    : table_(is_table(path)), out_(path, begin == log_begin::append) {
  std::error_code unknown;
  if (table_ && std::filesystem::file_size(path, unknown) == 0) out_.write(detail::log_head(), true);
}

GPIPE_COLD GPIPE_INLINE void log_file::operator()(const fit_progress& progress) {
  if (ended()) return;
  out_.write(detail::log_line(progress, detail::seconds_since_1970(), table_), progress.step == progress.steps);
}

}  // namespace gpipe
