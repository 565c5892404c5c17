#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe {

/// Workers that do one task at a time, all together. Worker 0 is whoever calls; the others are threads that live as
/// long as the crew and sleep between tasks. A thread of its own for worker 0 would cost two wakes a task (some 70 us),
/// and the caller, one more than there are cores, would push two workers onto the same core.
class thread_team {
 public:
  GPIPE_COLD thread_team(worker_signals& line, int workers) : signals_(line), workers_(workers) {
    threads_.reserve(static_cast<std::size_t>(workers) - 1);
    try {
      for (int w = 1; w < workers; ++w) threads_.emplace_back([this, w] { live(w); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~thread_team() { end(); }
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  int workers() const { return workers_; }

  /// Runs `task(worker)` on every worker and returns when the last is back. If any throws, the others are poisoned and
  /// the first cause is thrown here.
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
        const std::lock_guard<std::mutex> inside(barrier_);
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
  std::mutex barrier_;
  std::exception_ptr cause_;
  std::atomic<std::uint64_t> call_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace gpipe
