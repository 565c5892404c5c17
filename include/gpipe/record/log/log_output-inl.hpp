#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <gpipe/record/log/log_output.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE log_output::log_output(const std::string& path, bool append)
    : path_(path), file_(std::in_place, system_files(), path, O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC)) {}

GPIPE_COLD GPIPE_INLINE log_output::~log_output() { flush(); }

GPIPE_COLD GPIPE_INLINE void log_output::write(std::string_view bytes, bool now) {
  constexpr std::size_t max_waiting = std::size_t{1} << 16;
  if (ended()) return;
  waiting_ += bytes;
  if (now || waiting_.size() >= max_waiting || std::chrono::steady_clock::now() - flushed_ >= std::chrono::seconds(1))
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

}  // namespace gpipe::detail
