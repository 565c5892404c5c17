#pragma once

#include <gpipe/core/error.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace gpipe {

/// The times for which a worker spins before it sleeps, and for which a wait may last without progress.
struct wait_limits {
  std::chrono::nanoseconds spin = std::chrono::microseconds(60);
  bool yields = false;  ///< while it spins, so that another thread can run
  // change: the default deadline
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< without progress of *any* worker
  bool bound = false;                                            ///< each worker is bound to its cores

  /// Workers yield if they outnumber the cores, because a spinning worker keeps another from running. A sleeper wakes
  /// about 50 us late. Zero cores means unknown, as with `std::thread::hardware_concurrency`.
  static wait_limits of(int workers, unsigned cores = std::thread::hardware_concurrency()) {
    wait_limits result;
    if (cores != 0 && workers > static_cast<int>(cores)) result.yields = true;
    return result;
  }
};

/// The action in which a worker waits, for the location of an error. `action` must outlive the wait.
struct wait_context {
  int stage = -1;
  int micro_batch = -1;
  const char* action = "";
};

namespace detail {

/// Ends the wait of a worker because another one failed. It is never the cause of a failure.
struct interrupted {};

enum class wait_result : std::uint8_t { ready, interrupted, no_progress };

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

GPIPE_COLD inline std::string duration_text(std::chrono::nanoseconds time) {
  const auto ns = time.count();
  if (ns % 1'000 != 0) return concat({ns, " ns"});
  if (ns % 1'000'000 != 0) return concat({ns / 1'000, " us"});
  return ns % 1'000'000'000 != 0 ? concat({ns / 1'000'000, " ms"}) : concat({ns / 1'000'000'000, " s"});
}

}  // namespace detail

}  // namespace gpipe
