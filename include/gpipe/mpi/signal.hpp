#pragma once

#include <gpipe/core/config.hpp>

#include <signal.h>

#include <atomic>

namespace gpipe::mpi {

// When a process has ended, mpirun ends the other processes by SIGTERM and a second later by SIGKILL. In that second
// they report which one ended: unless the program handles the signal, it is recorded, and the next wait looks for the
// cause.

/// Whether SIGTERM has arrived, set by the handler.
inline std::atomic<bool> termination{false};
inline bool terminated() noexcept { return termination.load(std::memory_order_relaxed); }

/// Records SIGTERM while this object exists, if the signal would end the program.
class termination_guard {
 public:
  GPIPE_COLD termination_guard() {
    struct sigaction current {};
    if (sigaction(SIGTERM, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) return;
    struct sigaction recording {};
    recording.sa_handler = [](int) { termination.store(true, std::memory_order_relaxed); };
    set_ = sigaction(SIGTERM, &recording, nullptr) == 0;
  }
  ~termination_guard() {
    if (set_) signal(SIGTERM, SIG_DFL);
  }
  termination_guard(const termination_guard&) = delete;
  termination_guard& operator=(const termination_guard&) = delete;

 private:
  bool set_ = false;
};

/// Ends the process as SIGTERM would.
GPIPE_COLD inline void end_by_default() {
  termination.store(false);
  signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
}

}  // namespace gpipe::mpi
