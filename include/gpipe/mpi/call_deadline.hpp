#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/mpi/signal.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/thread.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace gpipe::mpi {

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
