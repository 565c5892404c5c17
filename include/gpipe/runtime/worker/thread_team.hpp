#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/float_environment.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>
#include <gpipe/transport/in_process/thread.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

/// A worker has not returned from a task when the deadline after the last progress of any worker was over.
struct worker_is_stuck {
  int worker;
  std::exception_ptr cause;  ///< the first exception of another worker; null: there was none
};

/// Workers that run one task at a time, all together. Worker 0 is the thread that calls `run`; the others are threads
/// that live as long as the team and sleep between tasks. Another thread for worker 0 would cost two wakes per task
/// (some 70 us), and with the caller there would be more threads than cores, so that two workers share one.
///
/// A thread that never returns from a task cannot be ended. A team with such a thread is never destroyed: its owner
/// keeps it, and everything that its tasks use, until the process ends.
class thread_team {
 public:
  /// `cores` null: no worker is bound. Otherwise each worker is bound to its own cores, worker 0 while it runs a task.
  GPIPE_COLD thread_team(worker_signals& wake_signals, int workers, const worker_cores* cores = nullptr)
      : signals_(wake_signals),
        workers_(workers),
        cores_(cores),
        busy_(std::make_unique<std::atomic<bool>[]>(detail::index(workers))) {
    require_stack(workers > 1);
    threads_.reserve(detail::index(workers - 1));
    try {
      for (int w = 1; w < workers; ++w) threads_.emplace_back([this, w] { live(w); });
    } catch (const std::system_error& cause) {
      const int started = static_cast<int>(threads_.size());
      end();
      detail::throw_error(
          {"the workers here are ", workers, " and need ", workers - 1,
           " threads beside the caller's, but the system starts ", started, ": ", cause.what()},
          {"choose fewer stages, workers, replicas or threads, or raise the limits of threads (ulimit -u) "
           "and of addresses (ulimit -v; each thread takes ulimit -s)"});
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
  /// end, and the first exception is thrown here; `interrupted` if all exceptions are `interrupted`. If one does not
  /// return, throws `detail::worker_is_stuck`; then the team runs nothing more.
  void run(std::function<void(int)> task) {
    task_ = std::move(task);  // kept for a worker that does not return
    cause_ = nullptr, interrupted_ = false;
    for (int w = 1; w < workers_; ++w) busy_[detail::index(w)].store(true, std::memory_order_relaxed);
    running_.store(workers_, std::memory_order_relaxed);
    call_.fetch_add(1, std::memory_order_release);
    for (int w = 1; w < workers_; ++w) signals_.wake(w);
    const bound_for_now bound(cores_, 0);
    // change: core binding
    signals_.spread(0);
    attempt(0);
    const auto all_done = [this] { return running_.load(std::memory_order_acquire) == 0; };
    if (!signals_.wait_for_rest(0, all_done)) {
      for (int w = 1; w < workers_; ++w)
        if (busy_[detail::index(w)].load(std::memory_order_acquire)) throw_stuck(w);
      signals_.wait_idle(0, all_done);  // the last one returned just now
    }
    if (!cause_ && !interrupted_) return;
    signals_.reset();
    if (cause_) std::rethrow_exception(std::exchange(cause_, nullptr));
    throw detail::interrupted{};
  }

 private:
  void live(int worker) {
    if (cores_ != nullptr) cores_->bind(worker);
    for (std::uint64_t done = 0;; ++done) {
      signals_.wait_idle(worker, [this, done] { return call_.load(std::memory_order_acquire) != done; });
      if (ending_.load(std::memory_order_acquire)) return;
      attempt(worker);
    }
  }

  void attempt(int worker) {
    const default_float_environment exact;
    try {
      task_(worker);
    } catch (const detail::interrupted&) {
      interrupted_ = true;
      signals_.wake_all();
    } catch (...) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!cause_) cause_ = std::current_exception();
      }
      signals_.wake_all();
    }
    busy_[detail::index(worker)].store(false, std::memory_order_release);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) signals_.wake(0);
  }

  [[noreturn]] GPIPE_COLD void throw_stuck(int worker) {
    const std::lock_guard<std::mutex> lock(mutex_);
    throw detail::worker_is_stuck{worker, cause_};
  }

  void end() {
    ending_.store(true, std::memory_order_release);
    call_.fetch_add(1, std::memory_order_release);
    for (int w = 1; w < workers_; ++w) signals_.wake(w);
    for (auto& thread : threads_) thread.join();
  }

  worker_signals& signals_;
  int workers_;
  const worker_cores* cores_;
  std::function<void(int)> task_;
  std::unique_ptr<std::atomic<bool>[]> busy_;  // [worker]
  std::mutex mutex_;
  std::exception_ptr cause_;
  std::atomic<bool> interrupted_{false};
  std::atomic<std::uint64_t> call_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace gpipe::detail
