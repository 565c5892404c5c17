#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <signal.h>
#include <string>
#include <thread>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/thread.hpp>

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

/// Ends the process if a call of MPI does not return. Such a call blocks its thread, so nothing can be thrown there:
/// another thread prints the call, the rank and a remedy, and the process ends. mpirun then ends the other processes.
///
///     call_deadline limit(rank, deadline);
///     limit.begin("MPI_Comm_dup");    ends the time of the previous call
///     limit.begin("MPI_Barrier");
///
/// It is used to join and leave a job. Calls in between are tested, not waited for.
class call_deadline {
 public:
  GPIPE_COLD call_deadline(int rank, std::chrono::nanoseconds limit)
      : rank_(rank),
        limit_(limit),
        thread_(gpipe::detail::start_thread("the deadline of MPI's calls", [this] { watch(); })) {}
  GPIPE_COLD ~call_deadline() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  call_deadline(const call_deadline&) = delete;
  call_deadline& operator=(const call_deadline&) = delete;

  /// `call` outlives this object. Null: the thread is in no call.
  GPIPE_COLD void begin(const char* call) {
    const std::lock_guard lock(mutex_);
    call_ = call;
    waited_ = {};
  }

  /// The rank of this process before MPI is initialized, as mpirun or srun has set it; -1: unknown.
  static int rank_before_init() noexcept {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
      if (const char* rank = std::getenv(name)) return std::atoi(rank);
    return -1;
  }

 private:
  // A part of the limit counts at most its length, so that the time for which a process was stopped (Ctrl-Z) does not
  // count.
  GPIPE_COLD void watch() {
    using namespace std::chrono_literals;
    const auto part = std::clamp<std::chrono::nanoseconds>(limit_ / 8, 1ms, 250ms);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, part, [this] { return ended_; })) {
      if (call_ == nullptr) continue;
      waited_ += part;
      if (waited_ < limit_ && !terminated()) continue;
      const std::string text =
          terminated() ? gpipe::detail::concat({"SIGTERM has come during ", call_})
                       : gpipe::detail::concat({call_, " has not returned for ", gpipe::detail::duration_text(limit_)});
      const error cause(text,
                        terminated() ? "mpirun sends it when another process has ended: see the messages of that one"
                                     : "it waits for all processes of the job: see which one is stopped or never "
                                       "started, or raise the deadline",
                        {.rank = rank_});
      std::fprintf(stderr, "%s\n", cause.what());
      std::fflush(stderr);
      std::_Exit(EXIT_FAILURE);
    }
  }

  int rank_;
  std::chrono::nanoseconds limit_, waited_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  const char* call_ = nullptr;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace gpipe::mpi
