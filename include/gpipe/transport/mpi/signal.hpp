#pragma once

#include <gpipe/core/config.hpp>

#include <signal.h>

#include <atomic>

namespace gpipe::mpi {

// mpirun ends a job of which a process has ended by SIGTERM, and a second later by SIGKILL. In that second the others
// tell who it was; so, unless the program has other plans, the signal is noted and looked into at the next wait.

/// Whether SIGTERM has come, noted by the handler.
inline std::atomic<bool> termination{false};
/// What the handler has noted.
inline bool terminated() noexcept { return termination.load(std::memory_order_relaxed); }

/// Notes SIGTERM, if it would end the program, for as long as this lives.
class termination_guard {
 public:
  GPIPE_COLD termination_guard() {
    struct sigaction now {};
    if (sigaction(SIGTERM, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
    struct sigaction noting {};
    noting.sa_handler = [](int) { termination.store(true, std::memory_order_relaxed); };
    set_ = sigaction(SIGTERM, &noting, nullptr) == 0;
  }
  ~termination_guard() {
    if (set_) signal(SIGTERM, SIG_DFL);
  }
  termination_guard(const termination_guard&) = delete;
  termination_guard& operator=(const termination_guard&) = delete;

 private:
  bool set_ = false;
};

/// Ends the process as SIGTERM would have.
GPIPE_COLD inline void end_by_default() {
  termination.store(false);
  signal(SIGTERM, SIG_DFL);
  raise(SIGTERM);
}

}  // namespace gpipe::mpi
