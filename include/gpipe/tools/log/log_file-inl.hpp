#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/tools/log/log_file.hpp>

namespace gpipe {

namespace detail {

/// A killed process or a full disk leaves a part of a line at a log's end, and the next line would be lost with it.
/// Cuts it off if whole lines precede it.
GPIPE_COLD inline void cut_half_line(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return;
  std::uint64_t whole = 0;
  {
    const open_file file(system_files(), path, O_RDONLY);
    char block[4096];
    const std::uint64_t end = file.size();
    for (std::uint64_t offset = end; offset > 0 && whole == 0;) {
      const std::uint64_t count = (std::min)(offset, std::uint64_t{sizeof block});
      offset -= count;
      file.read_at(block, count, offset);
      const std::size_t last = std::string_view(block, count).rfind('\n');
      if (last != std::string_view::npos) whole = offset + last + 1;
    }
    if (whole == 0 || whole == end) return;
  }
  std::filesystem::resize_file(path, whole, unknown);
  if (unknown) {
    errno = unknown.value();
    throw_file_error("cutting half a line at the end of the log", path);
  }
}

GPIPE_COLD GPIPE_INLINE log_output::log_output(const std::string& path, bool append)
    : path_(path),
      file_(std::in_place, system_files(), path,
            O_WRONLY | O_CREAT | (append ? (cut_half_line(path), O_APPEND) : O_TRUNC)) {}

GPIPE_COLD GPIPE_INLINE log_output::~log_output() { flush(); }

GPIPE_COLD GPIPE_INLINE void log_output::write(std::string_view bytes, bool at_once) {
  constexpr std::size_t max_waiting = std::size_t{1} << 16;
  if (ended()) return;
  waiting_ += bytes;
  if (at_once || waiting_.size() >= max_waiting ||
      std::chrono::steady_clock::now() - flushed_ >= std::chrono::seconds(1))
    flush();
}

GPIPE_COLD GPIPE_INLINE void log_output::flush() {
  if (ended()) return;
  try {
    file_->write(waiting_.data(), waiting_.size());
  } catch (const error& cause) {
    file_.reset();
    std::fprintf(stderr, "gpipe: the log '%s' ends here: %s; the training goes on\n", path_.c_str(),
                 cause.wrong().c_str());
  }
  waiting_.clear();
  flushed_ = std::chrono::steady_clock::now();
}

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
