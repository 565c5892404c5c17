#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe {

/// Workers that run one task at a time, all together. Worker 0 is the thread that calls `run`; the others are threads
/// that live as long as the team and sleep between tasks. Another thread for worker 0 would cost two wakes a task (some
/// 70 us), and with the caller there would be more threads than cores, so that two workers share one.
class thread_team {
 public:
  GPIPE_COLD thread_team(worker_signals& signals, int workers) : signals_(signals), workers_(workers) {
    threads_.reserve(detail::index(workers - 1));
    try {
      for (int w = 1; w < workers; ++w) threads_.emplace_back([this, w] { live(w); });
    } catch (const std::system_error& cause) {
      const int started = static_cast<int>(threads_.size());
      end();
      detail::throw_error({"the workers here are ", workers, " and need ", workers - 1,
                           " threads beside the caller's, but the system starts ", started, ": ", cause.what()},
                          {"choose fewer stages, workers or replicas, or raise the limits of threads (ulimit -u) and "
                           "of addresses (ulimit -v; each thread takes ulimit -s)"});
    } catch (...) {
      end();
      throw;
    }
  }
  ~thread_team() { end(); }
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  int workers() const { return workers_; }

  /// Runs `task(worker)` on every worker and returns when the last has finished. If one throws, the waits of the others
  /// end, and the first exception is thrown here.
  void run(const std::function<void(int)>& task) {
    task_ = &task;
    cause_ = nullptr;
    running_.store(workers_, std::memory_order_relaxed);
    call_.fetch_add(1, std::memory_order_release);
    for (int w = 1; w < workers_; ++w) signals_.wake(w);
    signals_.spread(0);
    attempt(0);
    signals_.wait_idle(0, [this] { return running_.load(std::memory_order_acquire) == 0; });
    if (!cause_) return;
    signals_.reset();
    std::rethrow_exception(std::exchange(cause_, nullptr));
  }

 private:
  void live(int worker) {
    for (std::uint64_t done = 0;; ++done) {
      signals_.wait_idle(worker, [this, done] { return call_.load(std::memory_order_acquire) != done; });
      if (ending_.load(std::memory_order_acquire)) return;
      attempt(worker);
    }
  }

  void attempt(int worker) {
    try {
      (*task_)(worker);
    } catch (const detail::interrupted&) {
    } catch (...) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!cause_) cause_ = std::current_exception();
      }
      signals_.wake_all();
    }
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) signals_.wake(0);
  }

  void end() {
    ending_.store(true, std::memory_order_release);
    call_.fetch_add(1, std::memory_order_release);
    for (int w = 1; w < workers_; ++w) signals_.wake(w);
    for (auto& thread : threads_) thread.join();
  }

  worker_signals& signals_;
  int workers_;
  const std::function<void(int)>* task_ = nullptr;
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::atomic<std::uint64_t> call_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace gpipe
