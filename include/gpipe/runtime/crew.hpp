#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gpipe/transport/lifeline.hpp>

namespace gpipe {

/// Threads that live as long as it does and do one task at a time, all together. They sleep between tasks.
class crew {
 public:
  /// The lifeline has a seat more than there are workers: that of whoever calls.
  GPIPE_ONCE crew(lifeline& line, int workers) : line_(line), workers_(workers) {
    threads_.reserve(static_cast<std::size_t>(workers));
    try {
      for (int w = 0; w < workers; ++w) threads_.emplace_back([this, w] { live(w); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~crew() { end(); }
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  int workers() const { return workers_; }

  /// Runs `task(worker)` on every worker and returns when the last is back. If any throws, the others are poisoned and
  /// the first cause is thrown here.
  void run(const std::function<void(int)>& task) {
    task_ = &task;
    cause_ = nullptr;
    running_.store(workers_, std::memory_order_relaxed);
    call_.fetch_add(1, std::memory_order_release);
    for (int w = 0; w < workers_; ++w) line_.wake(w);
    line_.rest(workers_, [this] { return running_.load(std::memory_order_acquire) == 0; });
    if (!cause_) return;
    line_.reset();
    std::rethrow_exception(std::exchange(cause_, nullptr));
  }

 private:
  void live(int worker) {
    for (std::uint64_t done = 0;; ++done) {
      line_.rest(worker, [this, done] { return call_.load(std::memory_order_acquire) != done; });
      if (ending_.load(std::memory_order_acquire)) return;
      try {
        (*task_)(worker);
      } catch (const detail::poisoned&) {
      } catch (...) {
        {
          const std::lock_guard<std::mutex> inside(door_);
          if (!cause_) cause_ = std::current_exception();
        }
        line_.poison();
      }
      if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) line_.wake(workers_);
    }
  }

  void end() {
    ending_.store(true, std::memory_order_release);
    call_.fetch_add(1, std::memory_order_release);
    for (int w = 0; w < workers_; ++w) line_.wake(w);
    for (auto& thread : threads_) thread.join();
  }

  lifeline& line_;
  int workers_;
  const std::function<void(int)>* task_ = nullptr;
  std::mutex door_;
  std::exception_ptr cause_;
  std::atomic<std::uint64_t> call_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

}  // namespace gpipe
