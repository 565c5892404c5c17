#pragma once

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <gpipe/record/file/write_file.hpp>
#include <gpipe/record/log/log_output.hpp>

namespace gpipe::detail {

GPIPE_COLD GPIPE_INLINE log_output::log_output(const std::string& path, bool append) : path_(path) {
  errno = 0;
  file_ = std::fopen(path.c_str(), append ? "ab" : "wb");
  if (file_ == nullptr) cannot_write(path, errno);
}

GPIPE_COLD GPIPE_INLINE log_output::~log_output() {
  errno = 0;
  if (file_ != nullptr && std::fclose(std::exchange(file_, nullptr)) != 0) end(errno);
}

GPIPE_COLD GPIPE_INLINE void log_output::write(std::string_view bytes, bool flush) {
  if (file_ == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  errno = 0;
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size();
  if (written && (flush || now - flushed_ >= std::chrono::seconds(1))) {
    written = std::fflush(file_) == 0;
    flushed_ = now;
  }
  if (!written) end(errno);
}

GPIPE_COLD GPIPE_INLINE void log_output::end(int reason) {
  if (file_ != nullptr) std::fclose(std::exchange(file_, nullptr));
  std::fprintf(stderr, "gpipe: the log '%s' ends here: %s; the training goes on\n", path_.c_str(),
               reason == 0 ? "it cannot be written" : std::strerror(reason));
}

}  // namespace gpipe::detail
