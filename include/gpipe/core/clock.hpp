#pragma once

#include <chrono>
#include <cstdint>

namespace gpipe::detail {

/// The clock of a training's times and events, in nanoseconds since a fixed moment.
inline std::int64_t now_ns() noexcept {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace gpipe::detail
