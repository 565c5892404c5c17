#pragma once

#include <gpipe/core/concat.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace gpipe {

/// How long a worker spins before it sleeps, and how long silence may last.
struct patience {
  std::chrono::nanoseconds spin = std::chrono::microseconds(60);
  bool yields = false;  ///< while it spins, to whoever can run
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< without progress of *any* worker

  /// Workers that outnumber the cores must not spin each other away: they yield. A sleeper wakes some 50 us late.
  /// Zero cores means unknown, as with `std::thread::hardware_concurrency`.
  static patience of(int workers, unsigned cores = std::thread::hardware_concurrency()) {
    patience result;
    if (cores != 0 && workers > static_cast<int>(cores)) result.yields = true;
    return result;
  }
};

/// On which errand a worker waits. Free until it has to be told; `action` must outlive the wait.
struct errand {
  int stage = -1;
  int micro_batch = -1;
  const char* action = "";
};

namespace detail {

/// Ends the wait of a worker because another one failed: a follower, never the cause.
struct poisoned {};

enum class outcome : std::uint8_t { ready, poisoned, silent };

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

GPIPE_ONCE inline std::string told(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return ms % 1000 == 0 ? phrase({ms / 1000, " s"}) : phrase({ms, " ms"});
}

}  // namespace detail

}  // namespace gpipe
